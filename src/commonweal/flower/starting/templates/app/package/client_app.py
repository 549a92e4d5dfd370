"""What runs at every member, for each message of the coordinator."""

from commonweal.flower import client_app

from .task import evaluate, load, train

app = client_app(load=load, train=train, evaluate=evaluate)
