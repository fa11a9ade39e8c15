"""What a user types at the prompt: SQL, and commands that begin with a backslash."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from headrace.cli.support.script import Source, SourceStatement, split_sources
from headrace.grammar.lexer import code_tokens
from headrace.grammar.script import is_complete_script, split_script

_RUN_COMMAND = re.compile(r"\\gx?\b")
_PLAIN_COMMANDS = {"exit": "\\q", "quit": "\\q", "help": "\\?"}
"""Words that no SQL statement consists of, and the commands that they stand for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the typed text that runs as a whole: one command, or one or more statements."""

    text: str
    is_command: bool
    waits_for_command: bool = False
    """Whether the command that follows, `\\g` or `\\gx`, runs the last statement."""

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

    def end_sql(*, waits_for_command: bool = False) -> None:
        part = "".join(sql)
        sql.clear()
        plain = _PLAIN_COMMANDS.get(part.strip(" \t\r\n;").lower())
        if plain is not None:
            entries.append(Entry(plain, is_command=True))
        elif part.strip():
            entries.append(Entry(part, is_command=False, waits_for_command=waits_for_command))

    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("\\") and is_complete_script("".join(sql)):
            end_sql()
            entries.append(Entry(line.strip(), is_command=True))
            continue
        sql.append(line)
        at = _find_run_command("".join(sql)) if _RUN_COMMAND.search(line) else None
        if at is not None:
            whole = "".join(sql)
            sql[:] = [whole[:at]]
            end_sql(waits_for_command=True)
            entries.append(Entry(whole[at:].strip(), is_command=True))
    end_sql()
    return entries


def _find_run_command(text: str) -> int | None:
    r"""Return the offset of `\g` or `\gx` behind a statement; None if there is none in its code."""
    tokens = list(code_tokens(text))
    for token, following in pairwise(tokens):
        is_command = following.word in {"G", "GX"} and following.start == token.end
        if token.word == "\\" and is_command and text[: token.start].strip():
            return token.start
    return None


def is_complete_input(text: str) -> bool:
    """Return whether Enter runs a text. Otherwise Enter begins another line."""
    entries = split_input(text)
    return not entries or entries[-1].is_command or is_complete_script(entries[-1].text)
