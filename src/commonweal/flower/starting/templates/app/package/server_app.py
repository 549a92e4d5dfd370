"""What runs at the operator: the coordinator, round by round."""

from commonweal.flower import server_app

from .task import initial_model

app = server_app(initial_model=initial_model)
