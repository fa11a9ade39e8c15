"""A pseudo-terminal for real commands."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence

from tests.cli.conftest import COMMAND


class PseudoTerminal:
    """A pseudo-terminal that records what commands write to it."""

    def __init__(self, environment: dict[str, str], columns: int = 80) -> None:
        self.environment = {**environment, "TERM": "xterm", "PYTHONUTF8": "1"}
        self.columns = columns
        self._written = b""
        self._primary, self._secondary = pty.openpty()
        fcntl.ioctl(self._secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def start(
        self, *arguments: str, stdout: int | None = None, program: Sequence[str] = COMMAND
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*program, *arguments],
            stdin=self._secondary,
            stdout=self._secondary if stdout is None else stdout,
            stderr=self._secondary,
            env={key: self.environment[key] for key in self.environment if key != "COLUMNS"},
        )

    def run(self, *arguments: str) -> str:
        """Run a command and return its whole output, without carriage returns."""
        assert self.start(*arguments).wait(timeout=120) == 0
        self.close()
        return self.text

    def type(self, text: str) -> None:
        """Enter text as a user does."""
        os.write(self._primary, text.encode())

    @property
    def text(self) -> str:
        # A part of a character at the end is left out: the command may be writing it.
        written = codecs.getincrementaldecoder("utf-8")().decode(self._written)
        return written.replace("\r\n", "\n")

    def close(self) -> None:
        if self._secondary >= 0:
            os.close(self._secondary)
            self._reader.join()
            os.close(self._primary)
            self._secondary = -1

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._primary, 65536)
            except OSError:  # Linux raises this when the other end is closed
                return
            if not block:
                return
            self._written += block
