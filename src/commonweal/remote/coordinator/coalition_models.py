"""How coalition models reach members: whole, or as weights over local models.

A coalition's model is the average of its members' local models. Sent whole, each costs the traffic of one model. Sent
as weights, all of them together cost one copy of each local model, however many coalitions are evaluated; but then a
member holds the local models of the others. It could compute these anyway once the coalitions that it was asked to
evaluate determine them: with the declared counts, which the ledger shows to all members, the averages are linear
equations in the local models. So weights are sent only from then on, when they reveal nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from commonweal.federation.client_set import Coalition


def are_local_models_known(coalitions: Sequence[Coalition]) -> bool:
    """Whether the models of these coalitions determine the local model of every client in them.

    They do if the matrix of who is in which coalition has full rank; weights only scale its columns and rows. The N + 1
    coalitions of the marginal contribution do. The model of all clients, which an iteration needs, does not.
    """
    clients = sorted(frozenset().union(*coalitions))
    if len(coalitions) < len(clients) or len(clients) < 2:
        return False
    rows = np.array([[client in coalition for client in clients] for coalition in coalitions], dtype=np.float64)
    return int(np.linalg.matrix_rank(rows)) == len(clients)
