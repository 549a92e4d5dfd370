"""The network of digits.toml, trained with its algorithm. A model is sent as one vector of floats."""

import torch

from commonweal.flower import Trained
from commonweal.learning.algorithms import make_algorithm
from commonweal.learning.fast import FastLearner
from commonweal.learning.local_training import LocalTraining
from commonweal.learning.models import ARCHITECTURES, Layout, initial_model, to_tensor

torch.set_num_threads(1)


class Learner:
    def __init__(self, scenario):
        self.scenario = scenario
        self.layout = Layout(ARCHITECTURES[scenario.learning.model], (28, 28, 1), class_count=10)
        self.algorithm = make_algorithm(scenario.learning, self.layout)
        self.network = FastLearner(self.layout)

    def initial(self, seed):
        return {"vector": initial_model(self.layout, seed).numpy()}

    def train(self, model, training, context):
        """One iteration; under FedBN, batch normalisation stays with the member."""
        images, labels = training
        shared = torch.from_numpy(model["vector"])
        local = LocalTraining(
            learning=self.scenario.learning,
            layout=self.layout,
            algorithm=self.algorithm,
            learner=self.network,
            seed=context.seed,
        )
        result, step_count, loss = local.run(
            context.member.name,
            context.round_number,
            context.iteration,
            shared=shared,
            served=torch.empty(0),
            memory=self.memory_of(context, shared),
            images=to_tensor(images, torch.float32),
            labels=torch.from_numpy(labels),
            defect={client.name: client.defect for client in self.scenario.clients}[context.member.name],
        )
        context.memory["memory"] = result.memory.numpy()
        return Trained(model={"vector": result.model.numpy()}, step_count=step_count, loss=loss)

    def evaluate(self, model, validation, context):
        images, labels = validation
        shared = torch.from_numpy(model["vector"])
        personal = self.algorithm.personal(shared, self.memory_of(context, shared))
        images, labels = to_tensor(images, torch.float32), torch.from_numpy(labels)
        return self.network.score(personal, images, labels, self.scenario.learning.score).numpy()

    def memory_of(self, context, shared):
        """What the algorithm remembers from the previous iteration."""
        if "memory" in context.memory:
            return torch.from_numpy(context.memory["memory"])
        return self.algorithm.first_memory(shared)
