"""Commands against a node that does what the test says."""

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

COMMAND = [sys.executable, "-m", "headrace.cli"]
Ran = subprocess.CompletedProcess[str]
Headrace = Callable[..., Ran]


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node


@pytest.fixture
def environment(tmp_path: Path, node: ScriptedNode) -> dict[str, str]:
    """What the commands of a test see; they work in the test's own folder."""
    return {**os.environ, "HEADRACE_SERVER": node.address, "HEADRACE_HOME": str(tmp_path / "home")}


@pytest.fixture
def headrace(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Headrace:
    """Runs `headrace …` to its end, in this process: a process each would take minutes in all."""

    def run(*arguments: str, stdin: bytes = b"", **settings: str) -> Ran:
        streams = {"stdin": _stream(stdin), "stdout": _stream(), "stderr": _stream()}
        with monkeypatch.context() as patched:
            patched.chdir(tmp_path)
            for name, value in (environment | settings).items():
                patched.setenv(name, value)
            for name, stream in streams.items():
                patched.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as ended:
                program(list(arguments), prog_name="headrace")
        return Ran(
            list(arguments),
            cast("int", ended.value.code),
            _written(streams["stdout"]),
            _written(streams["stderr"]),
        )

    return run


def _stream(content: bytes = b"") -> Any:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def _written(stream: Any) -> str:
    stream.flush()
    return str(stream.buffer.getvalue().decode())
