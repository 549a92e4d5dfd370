"""What runs at the operator."""

from commonweal.flower import server_app
from digits.task import initial

app = server_app(initial_model=initial)
