"""The glossary of the HTML pages, for readers who are new to the subject."""

from __future__ import annotations

from commonweal.records import MetricName

GLOSSARY = {
    "client": "A member of the federation with its own data, such as a hospital.",
    "round": "One cycle of the federation: new data arrive, the model is trained and valued, and the mechanism decides "
    "who stays and who pays whom.",
    "accuracy": "How often the shared model is right on the client's own validation samples, which it was not trained "
    "on.",
    "utility": "What the round's gain in accuracy was worth to the client. All amounts in this report are in units of "
    "utility.",
    "cost": "What the round cost the client: data, training and communication.",
    "profit": "Utility minus cost, before transfers. A client with a negative profit is a loss-maker; only loss-makers "
    "can be eliminated.",
    "contribution": "What the client added to the shared model in the round, as measured.",
    "share": "The client's part of what all retained clients contributed.",
    "budget": "The sum of the retained clients' profits. It is divided among them by share; a loss by the loss rule.",
    "transfer": "What a client receives (+) or pays (−) in a round. The transfers of a round add up to zero.",
    "payoff": "Profit plus transfer: what the client ends up with in the round.",
    "retained, eliminated": "A retained client stays in the federation after the round. An eliminated client leaves "
    "for good; it bears its own loss and neither pays nor receives in that round.",
    "harmful": "A client whose updates made the model worse at the other clients, summed over the rounds and beyond "
    "doubt: by a t test over these clients, with one chance in twenty of ever finding an honest client harmful. It "
    "is eliminated whatever its profit, or the operator is told.",
    "finished": "A federation of which no two clients can expect the next round to bring them more than it costs. It "
    "ends, or the operator is told.",
    "stability": "Figures are measured on few samples, so they could have come out otherwise. Each round is decided "
    "again on draws of its figures; the stability of a decision about a client is the share of draws in which it is "
    "the same. If the federation was finished, it is the share of draws in which it would have been, too. Who is "
    "harmful is not decided on draws, but by a test.",
    "absent": "A member without figures in a round: it has no transfer and no vote, and may return.",
    "silent": "Absent after it had the round's model: it did not report, and so had no transfer to pay.",
    "mu, leniency": "How much weight the federation gives to the contribution that it loses by eliminating a client. "
    "At 0 every loss-maker is eliminated; a larger mu makes eliminations rarer; at infinity nobody is eliminated.",
    "decision map": "A plot of one round: for every mu, who would have been retained. The dashed line is the mu at "
    "which the round was decided.",
    "duration": "The number of rounds in which the client took part.",
    "TSW": "Total social welfare, as the paper defines it: the sum of the budgets of all rounds so far. The profits of "
    "clients in the round in which they were eliminated, mostly losses, are not in it; the welfare of all who took "
    "part counts them.",
    "TSFI": "Total selection fairness index: the part of all contributions that came from retained clients. 1 means "
    "that no client that contributed was eliminated.",
    "individual rationality": "No retained client has a negative payoff. Where this fails, the report warns.",
    "± (standard error)": "How far a figure may be off by chance because it was measured on few samples. It is about "
    "the samples only, given the models that were trained and the clients that stayed: another run of the same "
    "federation can differ by more. ± 0: exact, or the same in all draws. ± ?: unknown, because it follows from "
    "figures that clients keep private.",
}

_WHERE = "on the client's own validation samples, which the model was not trained on"
_METRICS = {
    "accuracy": GLOSSARY["accuracy"],
    "balanced-accuracy": f"The mean over the classes of how often the shared model recognises them, {_WHERE}.",
    "roc-auc": "The probability that the shared model gives a sample of the class a higher value than one of another "
    f"class, {_WHERE}. 0.5 is chance, 1 is best.",
    "average-precision": "The precision of the shared model, averaged over all thresholds at which it finds another "
    f"sample of the class, {_WHERE}. 1 is best.",
    "f1": "The harmonic mean of precision and recall: how many of the samples that the shared model assigns to the "
    f"class belong to it, and how many of the class it finds, {_WHERE}. 1 is best.",
    "r2": f"The part of the variance of the target that the shared model explains, {_WHERE}. 1 is best; at 0 the model "
    "is no better than the mean.",
    "mean-absolute-error": f"How far the shared model's predictions are from the target on average, {_WHERE}. Lower is "
    "better.",
}


WORDS_ABOUT_MU = ("mu, leniency", "decision map")  # left out of the report on a mechanism without mu


def metric_meaning(metric: MetricName) -> str:
    """What the metric says about a model, in one or two sentences."""
    direction = "Higher" if metric.higher_is_better else "Lower"
    own = f"How good the shared model is {_WHERE}, by a metric of this federation's own. {direction} is better."
    return _METRICS.get(metric.name, own)


def _used_profits(figures: str) -> dict[str, str]:
    words = {
        "profit": "Utility minus cost, before transfers. "
        + ("Transfers follow from it." if figures == "forecast" else GLOSSARY["profit"].partition(". ")[2]),
        "measured profit": "What the profit would have been by the client's own measurement since the round before.",
    }
    if figures == "forecast":
        words["expected profit"] = (
            "The profit that the client can expect of the next round. A client with a negative expected profit is a "
            "loss-maker; only loss-makers can be eliminated."
        )
    return words


def run_glossary(
    metric: MetricName, *, utility: str = "gain", figures: str = "measured", has_alone: bool = False
) -> dict[str, str]:
    """The glossary of a run's page: its own metric and rules, and models trained alone if there are any."""
    gain = f"gain in {metric.label}" if metric.higher_is_better else f"improvement, that is the fall, in {metric.label}"
    worth = f"What the round's {gain} was worth to the client."
    own: dict[str, dict[str, str]] = {}
    if utility == "advantage":
        worth = (
            "What it was worth to the client in the round to have the shared model instead of its own, measured by "
            f"{metric.label}."
        )
        own["profit"] = {
            "profit": "Utility minus what the round cost more than training alone, before transfers. A client with a "
            "negative profit is a loss-maker; only loss-makers can be eliminated."
        }
    if figures == "paired":
        worth += " Both models are measured on the samples that the client has now."
        own["profit"] = _used_profits(figures)
    elif figures != "measured":
        worth = (
            f"What the round's {gain} was worth to the client, where the gain is pooled over all clients: the few "
            "samples of one client say little, so each gain is drawn towards the mean of all."
        )
        own["profit"] = _used_profits(figures)
    own["accuracy"] = {metric.label: metric_meaning(metric)}
    own["utility"] = {"utility": f"{worth} All amounts in this report are in units of utility."}
    if has_alone:
        better = "Above" if metric.higher_is_better else "Below"
        own["accuracy"] |= {
            "alone": "The model that the client would have without the federation: trained on its own samples only, "
            "with all iterations of each round.",
            "difference": f"{metric.label[:1].upper()}{metric.label[1:]} in the federation minus {metric.label} alone, "
            f"on the same validation samples. {better} zero the federation's model is better.",
        }
        own["cost"] = {
            "cost": GLOSSARY["cost"],
            "cost alone": "What the round would have cost the client alone: data and training.",
        }
    words: dict[str, str] = {}
    for word, meaning in GLOSSARY.items():
        words |= own.get(word, {word: meaning})
    return words


_SHARED = ("client", "round", "duration", "mu, leniency", "TSW", "TSFI", "contribution", "individual rationality")

STUDY_GLOSSARY = {
    "claim": "Something the paper says about an experiment. Parts of a claim have letters.",
    "effect": "The number by which a claim is tested. The larger it is, the more it supports the claim.",
    "threshold": "What the effect must exceed for the claim to hold.",
    "held, not held, undecided, not testable": "Held: the interval of the effect lies above the threshold. Not held: "
    "it lies at or below the threshold. Both only if the p-value, corrected for all tests of the page (Holm), is at "
    "most 0.05. Undecided: neither. Not testable: these results say nothing about the claim, and the driver says why.",
    "p-value": "How often an effect at the threshold would be found as far away from it as this one, by chance.",
    "power": "How often a study of as many replications would find the effect, if the true one is as large as the one "
    "observed.",
    "driver": "What explains the result of a claim.",
    "replication": "One run of an experiment with its own seed. All figures are means over replications.",
    "interval": "Where the mean would lie with other seeds: a bootstrap over replications, at the level stated under "
    "Facts. It has no width where all replications agree.",
    "least lenient, most lenient": "The baselines. At mu = 0 every loss-maker is eliminated at once; at mu = inf "
    "nobody is ever eliminated.",
    "whole axis of mu": "All mu from 0 to infinity. Outcomes change at only finitely many values, so all of them can "
    "be computed. "
    "Infinity is a separate point.",
    "fairness target": "The smallest final TSFI that is acceptable. The recommended mu has the most welfare among "
    "those that reach it.",
    "contribution rule": "clip: a negative contribution counts as 0 (the default here). raw: contributions count as "
    "measured, as in the paper.",
    **{word: GLOSSARY[word] for word in _SHARED},
}
