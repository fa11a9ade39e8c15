"""`SELECT 1` by callers who sign in in different ways, at one node.

Each way is compared with another one that uses the same session, so that its driver is no part of
the difference: a token of the node's user with the token of the node, the access token of a member
of a group with a token of the group, and a password with a token of the same user.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.support import directory as directory_parts

from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import SESSION, NodeClient, node_process

NODE_TOKEN = "the token of the node"
OWN_TOKEN = "a token of its user"
GROUP_TOKEN = "a token of a group"
ACCESS_TOKEN = "an access token (JWT) of a member of the group"
PERSONAL_TOKEN = "a token of a user of a directory"
PASSWORD = "the password of this user (LDAP, mostly from the cache)"
_SECRET = "of-the-node"
_GROUP = "group:etl"
_SECONDS = 24 * 3600


def select_times(folder: Path, *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Return the times of `SELECT 1` by the way to sign in. Each two in turn share a session."""
    (folder / "directory").mkdir(parents=True)
    with (
        _issuer() as (url, key),
        directory_parts.running_directory(folder / "directory" / "slapd") as directory,
    ):
        ldap = directory_parts.ldap_settings(directory, folder / "directory" / "home")
        auth = {
            "HEADRACE_AUTH__METHODS": json.dumps(["token", "oidc", "ldap"]),
            "HEADRACE_AUTH__OIDC": json.dumps({"corp": {"issuer": url, "audience": ["headrace"]}}),
            "HEADRACE_AUTH__LDAP": json.dumps(ldap, default=str),
        }
        with node_process(folder / "sign-in", token=_SECRET, **auth) as (node, _process):
            member = _as(node, _sign(key, url))
            person = NodeClient(
                node.address, node.process.pid, password=("bob", directory_parts.PASSWORD)
            )
            own, of_group, of_person = (
                _as(client, client.call("POST", "/api/v1/tokens", body)["token"])
                for client, body in (
                    (node, {"name": "own", "expires": "1d"}),
                    (member, {"name": "group", "expires": "1d", "owner": _GROUP}),
                    (person, {"name": "own", "expires": "1d"}),
                )
            )
            for client, body in ((node, {}), (member, {"owner": _GROUP}), (person, {})):
                client.call("POST", "/api/v1/sessions", {"name": SESSION, **body})
            clients = {
                NODE_TOKEN: node,
                OWN_TOKEN: own,
                GROUP_TOKEN: of_group,
                ACCESS_TOKEN: member,
                PERSONAL_TOKEN: of_person,
                PASSWORD: person,
            }
            return interleaved(
                {name: partial(client.rows, "SELECT 1") for name, client in clients.items()},
                warm_up=warm_up,
                rounds=rounds,
            )


def _as(node: NodeClient, token: str) -> NodeClient:
    return NodeClient(node.address, node.process.pid, token=token)


def _sign(key: RSAKey, issuer: str) -> str:
    now = int(time.time())
    claims = {"iss": issuer, "aud": "headrace", "sub": "1", "iat": now, "exp": now + _SECONDS}
    claims |= {"preferred_username": "ada", "groups": ["etl"]}
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key, algorithms=["RS256"])


@contextmanager
def _issuer() -> Iterator[tuple[str, RSAKey]]:
    """Serve the keys of an issuer. Yield its URL and its private key."""
    key = RSAKey.generate_key(2048, {"kid": "bench", "use": "sig"}, private=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            documents: dict[str, Any] = {
                "/.well-known/openid-configuration": {"issuer": url, "jwks_uri": f"{url}/keys"},
                "/keys": {"keys": [key.as_dict(private=False)]},
            }
            content = json.dumps(documents[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield url, key
        finally:
            server.shutdown()
            thread.join()
