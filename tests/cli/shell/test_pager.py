"""The stream that continues in a pager."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from headrace.cli.shell.printer import PagedStream


@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_belongs_to_the_pager_from_its_start_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    signals: list[int] = []
    monkeypatch.setenv("PAGER", "false" if fails else "cat")
    previous = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    handler = signal.getsignal(signal.SIGINT)
    try:
        with (tmp_path / "out").open("w", encoding="utf-8") as out:
            stream = PagedStream(out)
            stream.begin()
            try:
                for _ in range(shutil.get_terminal_size().lines + 100_000 * fails):
                    stream.write("x\n")
            except BrokenPipeError:
                assert fails
            os.kill(os.getpid(), signal.SIGINT)
            assert signals == []
            stream.end()
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, previous)
