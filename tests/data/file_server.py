"""A web server on this machine that can also misbehave."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(content):
    """Yields (address, list of paths asked for). The path says how to answer:

    /whole/...  as it should be;  /half/...  breaks off in the middle;  /hang/...  stops in the middle;  else 404.
    """
    asked = []
    may_end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            manner = self.path.split("/")[1]
            if manner not in ("whole", "half", "hang"):
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content if manner == "whole" else content[: len(content) // 2])
            self.wfile.flush()
            if manner == "hang":
                may_end.wait(60)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        may_end.set()
        server.shutdown()
        thread.join()
        server.server_close()
