"""What a person sees: real commands on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.scripted_node import ScriptedNode
from tests.support.waiting import wait_until


class Screen:
    """A terminal and what was written to it."""

    def __init__(self, environment: dict[str, str], columns: int = 80) -> None:
        self.environment = {**environment, "TERM": "xterm", "PYTHONUTF8": "1"}
        self._written = b""
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def start(self, *arguments: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=self._theirs,
            stdout=self._theirs if stdout is None else stdout,
            stderr=self._theirs,
            env={key: self.environment[key] for key in self.environment if key != "COLUMNS"},
        )

    def run(self, *arguments: str) -> str:
        """The whole of what a command shows, with bare newlines."""
        assert self.start(*arguments).wait(timeout=30) == 0
        self.close()
        return self.text

    @property
    def text(self) -> str:
        return self._written.decode().replace("\r\n", "\n")

    def close(self) -> None:
        if self._theirs >= 0:
            os.close(self._theirs)
            self._reader.join()
            os.close(self._ours)
            self._theirs = -1

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._ours, 65536)
            except OSError:  # what Linux says when the other end is closed
                return
            if not block:
                return
            self._written += block


@pytest.fixture
def screen(environment: dict[str, str]) -> Iterator[Screen]:
    screen = Screen(environment)
    yield screen
    screen.close()


def test_rows_are_a_table_with_a_footer(node: ScriptedNode, screen: Screen) -> None:
    columns = [("n", "int"), ("name", "string")]
    node.on("SELECT", columns=columns, chunks=[[[7, "日本"], [100, None]], [[5, "a\tb\x1b[2J"]]])
    screen.environment["NO_COLOR"] = "1"
    statement_id = f"st_{1:032x}"
    assert screen.run("sql", "SELECT") == (
        "   n │ name\n"
        "─────┼──────\n"
        "   7 │ 日本\n"
        " 100 │ NULL\n"
        "   5 │ a\\tb\\x1b[2J\n"
        f"3 rows · 1.50 s · {statement_id} · {node.address}/api/v1/statements/{statement_id}\n"
    )


def test_what_is_too_wide_is_vertical(node: ScriptedNode, environment: dict[str, str]) -> None:
    node.on("SELECT", columns=[("a", "int"), ("long", "string")], chunks=[[[1, "x" * 30]]])
    screen = Screen({**environment, "NO_COLOR": "1"}, columns=30)
    text = screen.run("sql", "SELECT", "--quiet")
    assert text.splitlines() == ["─[ 1 ]".ljust(40, "─"), "a    │ 1", f"long │ {'x' * 30}"]


def test_null_is_told_from_the_word_by_colour(node: ScriptedNode, screen: Screen) -> None:
    node.on("SELECT", columns=[("s", "string")], chunks=[[["NULL"], [None]]])
    assert screen.run("sql", "SELECT", "--quiet").splitlines()[2:] == [
        " NULL",
        " \x1b[2mNULL\x1b[0m",
    ]


def test_progress_is_drawn_and_wiped(node: ScriptedNode, screen: Screen) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], hangs=True)
    process = screen.start("sql", "SELECT")
    wait_until(lambda: "running" in screen.text, what="progress")
    node.finish(next(iter(node.statements)))
    process.wait(timeout=30)
    screen.close()
    assert re.search(r"running · \d+ s · 25 %", screen.text)
    last_drawn = screen.text.rpartition("%")[2]
    assert last_drawn.startswith("\r\x1b[2K")
    assert "1 row ·" in last_drawn


def test_binary_formats_refuse_a_terminal(node: ScriptedNode, screen: Screen) -> None:
    assert screen.start("sql", "SELECT", "--format", "parquet").wait(timeout=30) == 2
    screen.close()
    assert "is binary" in screen.text
    assert not node.statements


def test_without_sql_a_terminal_is_not_read(screen: Screen) -> None:
    assert screen.start("sql").wait(timeout=30) == 2
    screen.close()
    assert "There is no SQL to run." in screen.text
