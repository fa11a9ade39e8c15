"""Counts the calls of a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient

_RELEASE = "m\n"
"""Beginning of the command that releases a Java object. Python's garbage collector decides when."""


@contextmanager
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the commands that are sent to the JVM meanwhile."""
    commands: list[str] = []
    send = GatewayClient.send_command

    def record(client: Any, command: str, retry: bool = True, binary: bool = False) -> Any:
        if not command.startswith(_RELEASE):
            commands.append(command)
        return send(client, command, retry, binary)

    with monkeypatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", record)
        yield commands
