"""An HTTP endpoint that records the requests to it, and answers as a test says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
"""The secret with which all webhooks of the tests sign."""


@dataclass(frozen=True)
class ReceivedMessage:
    """A request that has arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def timestamp(self) -> int:
        return int(self.headers["webhook-timestamp"])

    @property
    def has_valid_signature(self) -> bool:
        signed = f"{self.id}.{self.timestamp}.".encode() + self.body
        digest = hmac.new(KEY, signed, hashlib.sha256).digest()
        return self.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


class WebhookReceiver:
    """The endpoint, and what has arrived there."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.port = server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}/hook/token-in-the-path"
        self.messages: list[ReceivedMessage] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        """Next answers; then 200."""
        self.arrived = threading.Event()
        self.answering = threading.Event()
        """Set: it answers. A test that clears it makes it hang."""
        self.answering.set()


@contextmanager
def receive_webhooks(context: ssl.SSLContext | None = None) -> Iterator[WebhookReceiver]:
    """Serve an endpoint on a free port of this host."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.messages.append(ReceivedMessage(self.path, headers, body))
            receiver.arrived.set()
            receiver.answering.wait(60)
            status, more, text = receiver.answers.pop(0) if receiver.answers else (200, {}, b"ok")
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver = WebhookReceiver(server, "http" if context is None else "https")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.answering.set()
        server.shutdown()
        server.server_close()
        thread.join()
