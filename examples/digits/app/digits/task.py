"""Load, train, evaluate: the scenario in digits.toml with commonweal's own learner, as its simulator runs it.

So the federation and `commonweal run` of the same scenario give the same figures. With data and a network of your own,
start from `commonweal flower new` instead.
"""

from functools import cache
from pathlib import Path

import torch
from commonweal.data.holdings import Holdings
from commonweal.flower import NewData, Trained
from commonweal.learning.algorithms import make_algorithm
from commonweal.learning.fast import FastLearner
from commonweal.learning.images import to_tensor
from commonweal.learning.local_training import LocalTraining
from commonweal.learning.models import ARCHITECTURES, Layout, initial_model
from commonweal.scenario.toml_file import read_scenario

torch.set_num_threads(1)
SCENARIO = read_scenario(Path(__file__).with_name("digits.toml"))
LAYOUT = Layout(ARCHITECTURES[SCENARIO.learning.model], (28, 28, 1))
ALGORITHM = make_algorithm(SCENARIO.learning, LAYOUT)
LEARNER = FastLearner(LAYOUT)
DEFECTS = {client.name: client.defect for client in SCENARIO.clients}


@cache
def holdings():
    return Holdings.for_scenario(SCENARIO, None)


def initial(federation):
    """The untrained model."""
    return {"vector": initial_model(LAYOUT, federation.seed).numpy()}


def load(round_number, member):
    """What is new to a member in a round."""
    new = holdings().arrive(member.name, round_number)
    return NewData(
        training=(new.training_images, new.training_labels),
        validation=(new.validation_images, new.validation_labels),
        sample_count=new.declared_count,
        paid_count=new.fresh_count,
    )


def train(model, training, context):
    """One iteration of local training; batch normalisation stays with the member where the algorithm is FedBN."""
    images, labels = training
    shared = torch.from_numpy(model["vector"])
    local = LocalTraining(
        learning=SCENARIO.learning, layout=LAYOUT, algorithm=ALGORITHM, learner=LEARNER, seed=context.seed
    )
    result, step_count, loss = local.run(
        context.member.name,
        context.round_number,
        context.iteration,
        shared=shared,
        served=torch.empty(0),
        memory=memory_of(context, shared),
        images=to_tensor(images, torch.float32),
        labels=torch.from_numpy(labels),
        defect=DEFECTS[context.member.name],
    )
    context.memory["memory"] = result.memory.numpy()
    return Trained(model={"vector": result.model.numpy()}, step_count=step_count, loss=loss)


def evaluate(model, validation, context):
    """1.0 for each digit that the model reads right."""
    images, labels = validation
    shared = torch.from_numpy(model["vector"])
    personal = ALGORITHM.personal(shared, memory_of(context, shared))
    images, labels = to_tensor(images, torch.float32), torch.from_numpy(labels)
    return LEARNER.score(personal, images, labels, SCENARIO.learning.score).numpy()


def memory_of(context, shared):
    """What the algorithm remembers of the iteration before."""
    if "memory" in context.memory:
        return torch.from_numpy(context.memory["memory"])
    return ALGORITHM.first_memory(shared)
