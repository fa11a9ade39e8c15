"""What a user types at the prompt: SQL, and commands that begin with a backslash."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.cli.script import Source, SourceStatement, split_sources
from headrace.grammar.script import is_complete_script, split_script

_PLAIN_COMMANDS = {"exit": "\\q", "quit": "\\q", "help": "\\?"}
"""Words that no SQL statement consists of, and the commands that they stand for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the typed text that runs as a whole: one command, or one or more statements."""

    text: str
    is_command: bool

    @property
    def statements(self) -> list[SourceStatement]:
        """The statements of SQL, in order; empty for comments alone."""
        return split_sources([Source(None, self.text)]) if split_script(self.text) else []


def split_input(text: str) -> list[Entry]:
    r"""Return the commands and the SQL of a text, in order.

    A line that begins with `\` is a command, unless it continues a statement, for example inside a
    string.
    """
    entries: list[Entry] = []
    sql: list[str] = []

    def end_sql() -> None:
        part = "".join(sql)
        sql.clear()
        plain = _PLAIN_COMMANDS.get(part.strip(" \t\r\n;").lower())
        if plain is not None:
            entries.append(Entry(plain, is_command=True))
        elif part.strip():
            entries.append(Entry(part, is_command=False))

    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("\\") and is_complete_script("".join(sql)):
            end_sql()
            entries.append(Entry(line.strip(), is_command=True))
        else:
            sql.append(line)
    end_sql()
    return entries


def is_complete_input(text: str) -> bool:
    """Return whether Enter runs a text. Otherwise Enter begins another line."""
    entries = split_input(text)
    return not entries or entries[-1].is_command or is_complete_script(entries[-1].text)
