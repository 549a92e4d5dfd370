"""The questions a coordinator asks, by the names Flower knows them under."""

from __future__ import annotations

OPEN = "query.open"  # let the round's data arrive; score the model that starts it
TRAIN = "train.iteration"
EVALUATE = "evaluate.coalitions"
REPORT = "query.report"
CLOSE = "query.close"  # the round is settled: here is your statement

MODEL = "model/"  # how the name of a group begins that is a model; its hash follows
LACKS = "lacks"  # the field of an answer that names models the member does not have
