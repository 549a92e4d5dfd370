"""The ledger for other programs: spreadsheets, plain-text accounting, and a copy for members."""
