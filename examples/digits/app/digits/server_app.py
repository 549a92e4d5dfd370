"""What runs at the operator."""

from commonweal.flower import server_app
from digits import task

app = server_app(task)
