"""The ledger of a federation: who was paid what, chained, signed, and verifiable by every member.

An entry is a balanced group of postings together with everything that led to it. Entries are only ever added; a wrong
one is reversed by another.
"""
