"""The functions load, train and evaluate.

Here they use the scenario in digits.toml and commonweal's own learner, so that the federation and the simulator give
the same figures. For your own data and network, start with `commonweal flower new`.

Every message starts a new process at a member. Training and evaluation import torch when they need it, so that reports
and statements need not wait for it.
"""

from functools import cache
from pathlib import Path

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.flower import NewData
from commonweal.scenario.toml_file import read_scenario

SCENARIO = read_scenario(Path(__file__).with_name("digits.toml"))


@cache
def dataset():
    return FederatedDataset.for_scenario(SCENARIO, None)


def load(round_number, member):
    """What is new at a member in a round."""
    new = dataset().samples_for(member.name, round_number)
    return NewData(
        training=(new.training_images, new.training_labels),
        validation=(new.validation_images, new.validation_labels),
        sample_count=new.declared_count,
        paid_count=new.fresh_count,
    )


def train(model, training, context):
    """A local model from the one received."""
    from digits.learner import Learner

    return Learner(SCENARIO).train(model, training, context)


def evaluate(model, validation, context):
    """1.0 for each digit that the model reads correctly."""
    from digits.learner import Learner

    return Learner(SCENARIO).evaluate(model, validation, context)


def initial(federation):
    """The untrained model."""
    from digits.learner import Learner

    return Learner(SCENARIO).initial(federation.seed)
