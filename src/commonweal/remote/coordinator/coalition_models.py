"""How coalition models reach members: whole, or as weights over local models.

A coalition's model is the average of its members' local models. Sent whole, each costs the traffic of one model. Sent
as weights, all of them together cost one copy of each local model, however many coalitions are evaluated; but then a
member has its fellows' local models in hand. It has them in any case once the coalitions it was asked to evaluate
determine them: with the declared counts, which the book shows to all members, the averages are linear equations for
the local models. So weights are sent exactly from then on: they reveal nothing that the method had not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from commonweal.federation.client_set import Coalition


def are_local_models_known(coalitions: Sequence[Coalition]) -> bool:
    """Whether the models of these coalitions determine the local model of everybody in them.

    They do if the rows of who is in which coalition have full rank: weights scale columns and rows, no more. N + 1
    coalitions of the marginal contribution do; the one model of everybody, all that an iteration needs, does not.
    """
    clients = sorted(frozenset().union(*coalitions))
    if len(coalitions) < len(clients) or len(clients) < 2:
        return False
    rows = np.array([[client in coalition for client in clients] for coalition in coalitions], dtype=np.float64)
    return int(np.linalg.matrix_rank(rows)) == len(clients)
