"""The ledger for other programs: spreadsheets, plain-text accounting, a copy for members."""
