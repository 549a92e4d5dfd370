"""Verifying a ledger: the chain, signatures and balances, and every decision recomputed."""
