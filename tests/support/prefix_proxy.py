"""A proxy that serves a node below a path, and keeps the Host of the browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

_OWN = {"connection", "content-length", "date", "server", "transfer-encoding"}


class PrefixProxy(ThreadingHTTPServer):
    """Sends requests below `prefix` to the node at `target`, which a test may change."""

    def __init__(self, prefix: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.prefix = prefix
        self.target = ""
        self.targets: list[str] = []
        """Nodes to which the requests went."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{self.prefix}"


class _Handler(BaseHTTPRequestHandler):
    server: PrefixProxy

    def _forward(self) -> None:
        if not self.path.startswith(f"{self.server.prefix}/"):
            self.send_error(404)
            return
        self.server.targets.append(self.server.target)
        answer = httpx.request(
            self.command,
            f"{self.server.target}{self.path.removeprefix(self.server.prefix)}",
            headers=[(name, value) for name, value in self.headers.items() if name != "Connection"],
            content=self.rfile.read(int(self.headers.get("Content-Length", 0))),
            trust_env=False,
            timeout=60,
        )
        self.send_response(answer.status_code)
        for name, value in answer.headers.multi_items():
            if name.lower() not in {*_OWN, "content-encoding"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = _forward  # noqa: N815 - names of http.server

    def log_message(self, *_arguments: object) -> None:
        """Write nothing to standard error."""


@contextmanager
def running_proxy(prefix: str) -> Iterator[PrefixProxy]:
    """Run a proxy for the block."""
    with PrefixProxy(prefix) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
