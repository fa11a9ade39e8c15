"""What a client says about TLS that fails, and that it does not repeat the request."""

from __future__ import annotations

import pytest
from tests.cli.scripted_node import ScriptedNode
from tests.client.test_http import http_response, raw_server

from headrace.client.http import Client
from headrace.errors import TlsFailed


def test_https_to_a_node_without_tls_fails_at_once_with_a_hint() -> None:
    with ScriptedNode() as node:
        address = node.address.replace("http:", "https:")
        with (
            Client(address, retry_seconds=600) as client,
            pytest.raises(TlsFailed, match=r"TLS with https://.* has failed: ") as error,
        ):
            client.health()
    assert error.value.hint is not None
    assert "http://" in error.value.hint


def test_a_connection_that_ends_in_the_handshake_is_opened_again() -> None:
    with (
        raw_server(b"", http_response(b"{}")) as address,
        Client(address.replace("http:", "https:"), retry_seconds=10) as client,
        pytest.raises(TlsFailed),
    ):
        # The second connection answers without TLS.
        client.health()
