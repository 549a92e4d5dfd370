"""What runs at the operator: the coordinator, round by round."""

from commonweal.flower import server_app

from . import task

app = server_app(task)
