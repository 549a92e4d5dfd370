"""commonweal: the incentive layer of cross-silo federated learning."""

from commonweal.decision.decide import decide, mu_path, select

__all__ = ["decide", "mu_path", "select"]
