"""Fixtures that run commands against a scripted node."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.main import headrace as program
from headrace.cli.support import discovery

COMMAND = [sys.executable, "-m", "headrace.cli"]
CompletedCommand = subprocess.CompletedProcess[str]
RunHeadrace = Callable[..., CompletedCommand]


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node


@pytest.fixture
def environment(tmp_path: Path, node: ScriptedNode) -> dict[str, str]:
    """Environment variables of the commands, whose home is in the folder of the test."""
    return {**os.environ, "HEADRACE_SERVER": node.address, "HEADRACE_HOME": str(tmp_path / "home")}


@pytest.fixture
def headrace(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunHeadrace:
    """Return a function that runs `headrace …` in this process, which is faster than a new one."""

    def run(*arguments: str, stdin: bytes = b"", **variables: str) -> CompletedCommand:
        streams = {"stdin": _open_stream(stdin), "stdout": _open_stream(), "stderr": _open_stream()}
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name, value in (environment | variables).items():
                patch.setenv(name, value)
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as exit_info:
                program(list(arguments), prog_name="headrace")
        return CompletedCommand(
            list(arguments),
            cast("int", exit_info.value.code),
            _read_stream(streams["stdout"]),
            _read_stream(streams["stderr"]),
        )

    return run


def _open_stream(content: bytes = b"") -> Any:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def _read_stream(stream: Any) -> str:
    stream.flush()
    return str(stream.buffer.getvalue().decode())


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands wait for a node for a fraction of a second only."""
    monkeypatch.setattr(discovery, "CONNECT_SECONDS", 0.3)
