"""The report's words for a reader who has never heard of any of this."""

from __future__ import annotations

TERMS = {
    "client": "A member of the federation with data of its own, such as a hospital.",
    "round": "One turn of the common work: new data come in, the model is trained, its worth is measured, and it is "
    "decided who stays and who pays whom.",
    "accuracy": "How often the common model is right on the client's own validation samples, which it was not trained "
    "on.",
    "utility": "What the round's gain in accuracy was worth to the client. All amounts in this report are in units of "
    "utility.",
    "cost": "What the round cost the client: data, training and communication.",
    "profit": "Utility minus cost, before any money moves. A client with a negative profit is a loss-maker; only "
    "loss-makers can be eliminated.",
    "contribution": "What the client brought to the common model in the round, as measured.",
    "share": "The client's part of what all who stay have contributed.",
    "budget": "The sum of the profits of the clients that stay after the round. It is divided by share.",
    "transfer": "What a client receives (+) or pays (−) in a round. The transfers of a round add up to zero.",
    "payoff": "Profit plus transfer: what the client has from the round in the end.",
    "retained, eliminated": "A retained client stays after the round. An eliminated one leaves for good; it bears its "
    "own loss and neither pays nor receives in that round.",
    "absent": "A member without figures in a round: no transfer, no vote, and it may return.",
    "mu, leniency": "How much the federation minds losing a contribution when it lets a loss-maker go. At 0 every "
    "loss-maker leaves; the larger it is, the more reluctantly a client is let go; at infinity nobody leaves.",
    "decision map": "A picture of one round: for every mu, who would have stayed. The dashed line is the mu at which "
    "the round was decided.",
    "duration": "The number of rounds in which the client took part.",
    "TSW": "Total social welfare: the sum of the budgets of all rounds so far; what the federation gained as a whole.",
    "TSFI": "Total selection fairness index: of all that was contributed, the part that came from clients that were "
    "kept. 1 means that nobody who contributed was let go.",
    "individual rationality": "No client that stays has a negative payoff. Where it fails, the report warns.",
    "± (standard error)": "How far a figure may be off by chance, because it was measured on few samples. The true "
    "value lies within one standard error in about two of three cases.",
}
