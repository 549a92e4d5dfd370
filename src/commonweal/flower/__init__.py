"""A real federation on Flower: https://flower.ai. A user brings three functions; the incentive layer is here."""

from commonweal.flower.client_app import client_app
from commonweal.flower.federation_file import Federation
from commonweal.flower.member_file import Member
from commonweal.flower.server_app import server_app
from commonweal.flower.work import NewData, Trained, WorkContext

__all__ = ["Federation", "Member", "NewData", "Trained", "WorkContext", "client_app", "server_app"]
