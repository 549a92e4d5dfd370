"""The data of simulated clients: where samples come from, who gets which, and when.

    sources             a name -> labelled images: built in, or a verified file of a data directory
    catalogue           all built-in and reserved sources; one file or entry for each
    pools               the samples of a source -> a pool for each of its clients
    arrival             a pool and a round -> the samples that arrive, with wrong labels and copies
    federated_dataset   all of it for one scenario: what a client receives in a round
    importing, fetch    official files or your own -> files of a data directory
    own_images          what users bring: idx or .npz files of any size and number of classes
    originals/          readers of published data sets

Everything is a pure function of the scenario and its seed, so a run can be resumed without stored data.
"""
