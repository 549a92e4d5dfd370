"""Five banks read digits together: commonweal's own task for images, on the scenario in digits.toml.

The federation and the simulator give the same figures. For your own data and network, start with `commonweal flower
new`.

Every message starts a new process at a member. Training and evaluation import torch when they need it, so that reports
and statements need not wait for it.
"""

from functools import cache
from pathlib import Path

from commonweal.scenario.toml_file import read_scenario

SCENARIO = read_scenario(Path(__file__).with_name("digits.toml"))


@cache
def images():
    from commonweal.data.federated_dataset import FederatedDataset
    from commonweal.simulation.image_task import ImageTask

    return ImageTask(SCENARIO, FederatedDataset.for_scenario(SCENARIO, None))


def initial_model(plan):
    """The untrained model."""
    return images().initial_model(plan)


def load(round_number, member):
    """What is new at a member in a round."""
    return images().load(round_number, member)


def train(model, training, context):
    """A local model from the one received."""
    return images().train(model, training, context)


def evaluate(model, validation, context):
    """1.0 for each digit that the model reads correctly."""
    return images().evaluate(model, validation, context)


def gradient(model, validation, context):
    """Of the mean probability of the true digit; only contribution = "path" asks for it."""
    return images().gradient(model, validation, context)


def layout(model):
    """Where the parts of the network are in the vector that is sent."""
    return images().layout
