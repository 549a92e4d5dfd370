"""What runs at every member, for each message of the coordinator."""

from commonweal.flower import client_app

from . import task

app = client_app(task)
