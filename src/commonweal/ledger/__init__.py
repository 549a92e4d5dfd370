"""The ledger of a federation: a chained and signed record of who was paid what, which every member can verify.

An entry is a balanced group of postings together with everything that led to it. Entries are only ever added; a wrong
entry is reversed by a new one.
"""
