"""What runs at every member."""

from commonweal.flower import client_app
from digits.task import evaluate, load, train

app = client_app(load=load, train=train, evaluate=evaluate)
