"""Long output in a pager, such as less, once the first rows exceed the screen."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, TextIO

_DEFAULT_PAGER = "less"
_LESS_FLAGS = "-SRX"
"""Do not wrap lines, show colours, and leave the text on the screen."""
_RESERVED_LINES = 3
"""Lines of the screen that the footer and the next prompt need."""


def pager_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command line of the user's pager; empty if there is none."""
    try:
        words = shlex.split(environ.get("PAGER", _DEFAULT_PAGER))
    except ValueError:
        return []
    return words if words and shutil.which(words[0]) else []


class PagedStream(io.TextIOBase):
    """A terminal stream that continues in a pager after one screen of lines.

    The pager starts when the text exceeds the screen, so that short results need no key press. If
    the user quits the pager, the next write raises BrokenPipeError.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.enabled = True
        self._stream = stream
        self._held: list[str] = []
        self._held_lines = 0
        self._pager: subprocess.Popen[str] | None = None
        self._passes_through = True
        self._sigint_handler: Any = signal.SIG_DFL
        """Handler of Ctrl-C before the pager began."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def begin(self) -> None:
        """Hold the following text back until it is clear whether it fits on the screen."""
        self._passes_through = not self.enabled

    def write(self, text: str) -> int:
        if self._passes_through:
            return self._stream.write(text)
        if self._pager is not None:
            return self._feed(self._pager, text)
        self._held.append(text)
        self._held_lines += text.count("\n")
        if self._held_lines > shutil.get_terminal_size().lines - _RESERVED_LINES:
            self._start_pager()
        return len(text)

    def flush(self) -> None:
        if self._passes_through:
            self._stream.flush()

    def end(self) -> None:
        """Write what was held back, or wait until the user has left the pager."""
        pager, self._pager = self._pager, None
        if pager is not None:
            try:
                _wait_for_exit(pager)
            finally:
                signal.signal(signal.SIGINT, self._sigint_handler)
        self._release()

    def _start_pager(self) -> None:
        command = pager_command()
        if not command:
            self._release()
            return
        self._stream.flush()
        self._pager = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._stream.fileno(),
            env={"LESS": _LESS_FLAGS, **os.environ},
            encoding="utf-8",
            errors="backslashreplace",
        )
        # Ctrl-C belongs to the pager until its end. The child must not inherit that it is ignored.
        self._sigint_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        held = "".join(self._held)
        self._held.clear()
        self._feed(self._pager, held)

    def _feed(self, pager: subprocess.Popen[str], text: str) -> int:
        assert pager.stdin is not None
        return pager.stdin.write(text)

    def _release(self) -> None:
        self._stream.write("".join(self._held))
        self._stream.flush()
        self._held.clear()
        self._held_lines = 0
        self._passes_through = True


def _wait_for_exit(pager: subprocess.Popen[str]) -> None:
    """Close the input of a pager and wait for its end."""
    with contextlib.suppress(BrokenPipeError):
        assert pager.stdin is not None
        pager.stdin.close()
    pager.wait()
