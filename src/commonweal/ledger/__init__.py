"""The ledger of a federation: who was paid what, chained, signed, and checkable by every member.

An entry is one balanced group of postings with all that led to it. Entries are only ever added; what was wrong is
reversed by another entry.
"""
