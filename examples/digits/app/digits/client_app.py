"""What runs at every member."""

from commonweal.flower import client_app
from digits import task

app = client_app(task)
