"""What clients hold: sources of labelled images, how they are divided, how they arrive, what is wrong with them.

    sources     a name -> labelled images: built in, or a checked file of a data directory
    pools       the samples of a source -> a pool for each of its clients
    arrival     a pool and a round -> the samples that arrive, divided into training and validation
    defects     wrong labels, copies declared as new
    dataset    all of it for one scenario: what a client receives in a round
    official/   published distributions -> files of a data directory
    fetch       the network -> published distributions

Everything is a pure function of the scenario and its seed, so a run can be resumed without stored data state.
"""

from commonweal.data.federated_dataset import FederatedDataset, RoundSamples
from commonweal.data.samples import Samples

__all__ = ["FederatedDataset", "RoundSamples", "Samples"]
