"""commonweal: the incentive layer of cross-silo federated learning."""
