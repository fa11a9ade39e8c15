"""The history of the prompt, in a file that only the user can read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from headrace.config.home import state_folder
from headrace.files.private_files import open_private_log

_FILE = "shell_history"


class ShellHistory(FileHistory):
    """History that does not record an input that begins with a space.

    If its file cannot be read or written any more, the history continues in memory.
    """

    def append_string(self, string: str) -> None:
        if string and not string.startswith(" "):
            super().append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        try:
            yield from super().load_history_strings()
        except OSError:
            return

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def history_file() -> Path:
    """Return the path of the history. Raises RuntimeError if the user has no home directory."""
    return state_folder() / _FILE


def open_history() -> History:
    """Return the history of the user; one in memory if its file cannot be written."""
    try:
        file = history_file()
        open_private_log(file).close()
        file.chmod(0o600)
    except (OSError, RuntimeError):
        return InMemoryHistory()
    return ShellHistory(str(file))
