"""Verifying a ledger: the chain, the signatures, the balances, and every decision made again."""
