"""Verifying a book: the chain, the signatures, the balances, and every decision made again."""
