"""The operator's side: the federation's terms, the remote clients, and the rounds."""
