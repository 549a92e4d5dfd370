"""The operator's side: the federation's terms, and the clients behind the conductor's Protocol."""
