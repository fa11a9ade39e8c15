"""A shell on a pseudo-terminal that controls it, so that Ctrl-C is a signal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.cli.conftest import COMMAND
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support.waiting import wait_until

CTRL_C, CTRL_D, CTRL_R, ESCAPE, TAB, UP = "\x03", "\x04", "\x12", "\x1b", "\t", "\x1b[A"
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
_FORWARD = re.compile(r"\x1b\[[0-9]*C")
_START = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class ShellTerminal(PseudoTerminal):
    """A terminal with one shell."""

    process: subprocess.Popen[bytes]

    def __init__(self, environment: dict[str, str], columns: int = 80) -> None:
        super().__init__(environment, columns)
        self.environment |= {"NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1", "PAGER": "cat"}
        self._read_up_to = 0

    def open(self, *arguments: str) -> None:
        """Start the shell and wait for its first prompt."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *COMMAND, *(arguments or ("shell",))],
            stdin=self._secondary,
            stdout=self._secondary,
            stderr=self._secondary,
            env={key: self.environment[key] for key in self.environment if key != "COLUMNS"},
            start_new_session=True,
        )
        self.wait_for(">")

    @property
    def plain_text(self) -> str:
        """Everything that was written, without control sequences."""
        return _plain(self.text)

    def type(self, text: str) -> None:
        """Press keys. Only what is written from now on counts for `wait_for`."""
        self._read_up_to = len(self._written)
        os.write(self._primary, text.encode())

    def enter(self, text: str, expected: str) -> str:
        """Type a line and wait for a text in what follows."""
        self.type(text + "\r")
        return self.wait_for(expected)

    def wait_for(self, expected: str, *, seconds: float = 60) -> str:
        """Wait until a text has been written since the last keys; return what was written."""

        def written() -> str:
            new = self._written[self._read_up_to :].decode(errors="replace")
            return _plain(new)

        try:
            wait_until(lambda: expected in written(), seconds=seconds, what=repr(expected))
        except AssertionError as error:
            raise AssertionError(f"{error}; written: {written()!r}") from None
        return written()

    def leave(self) -> int:
        """Press Ctrl-D and return the exit code."""
        self.type(CTRL_D)
        return self.process.wait(timeout=60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        super().close()


def _plain(text: str) -> str:
    """Return a text without control sequences. A move to the right counts as a space."""
    return _CONTROLS.sub("", _FORWARD.sub(" ", text).replace("\r", ""))
