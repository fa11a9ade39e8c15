"""Programs that the user starts from the prompt: an editor, and the shell of the system."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import InvalidRequest

_LOCAL_MODES = termios.ECHO | termios.ICANON
_DEFAULT_EDITOR = "vi"


def run_program(command: Sequence[str]) -> int:
    """Run a program on the terminal and return its exit code.

    Raises InvalidRequest if it cannot be started.
    """
    try:
        with _usual_terminal():
            return subprocess.call(command)
    except OSError as error:
        raise InvalidRequest(f"{command[0]} cannot be started: {error.strerror}.") from error


def run_system_shell(command: str) -> int:
    """Run a command in the user's shell; without a command, start the shell itself."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    return run_program([shell, "-c", command] if command else [shell])


def edit(text: str) -> str | None:
    """Return a text as the user leaves it in the editor; None if the editor fails."""
    with tempfile.TemporaryDirectory(prefix="headrace-edit-") as folder:
        file = Path(folder) / "statement.sql"
        file.write_text(text, encoding="utf-8")
        return None if edit_file(file) else file.read_text(encoding="utf-8")


def edit_file(file: Path) -> int:
    """Open a file in the editor that VISUAL or EDITOR names. Return the editor's exit code."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _DEFAULT_EDITOR
    return run_program([*shlex.split(editor), str(file)])


@contextmanager
def _usual_terminal() -> Iterator[None]:
    """Let the terminal show and edit typed lines, as programs expect it."""
    descriptor = sys.stdin.fileno()
    present = termios.tcgetattr(descriptor)
    usual = [present[0] | termios.ICRNL, *present[1:3], present[3] | _LOCAL_MODES, *present[4:]]
    termios.tcsetattr(descriptor, termios.TCSADRAIN, usual)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, present)
