"""Ports of this machine for processes that are yet to start."""

from __future__ import annotations

import socket
import sys

LOOPBACK = "127.0.0.1"


class FreePorts:
    """Ports that nobody else is given until they are released.

    On Linux a bound socket keeps a port from others, yet a server may listen there that, as servers do, asks to reuse
    the address. Elsewhere it may not, so a port is only known to have been free a moment ago.
    """

    def __init__(self) -> None:
        self._bound: list[socket.socket] = []

    def next(self) -> int:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((LOOPBACK, 0))
        port = int(bound.getsockname()[1])
        if sys.platform == "linux":
            self._bound.append(bound)
        else:
            bound.close()
        return port

    def release(self) -> None:
        while self._bound:
            self._bound.pop().close()
