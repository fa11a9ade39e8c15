"""The backslash commands of the shell: names, arguments and summaries, for help and completion."""

from __future__ import annotations

from typing import NamedTuple


class CommandHelp(NamedTuple):
    """Help for one command."""

    name: str
    arguments: str
    summary: str

    @property
    def usage(self) -> str:
        return f"\\{self.name} {self.arguments}".rstrip()


COMMANDS = (
    CommandHelp("?", "", "Show this list."),
    CommandHelp("q", "", "Leave the shell."),
    CommandHelp(
        "d", "[NAME]", "List the tables of the database, or describe one; `db.*` lists db."
    ),
    CommandHelp("d+", "NAME", "Describe a table with its details."),
    CommandHelp("l", "", "List catalogs, and the databases of the current catalog."),
    CommandHelp("x", "[on|off|auto]", "Show rows vertically: always, never, or if they are wide."),
    CommandHelp("timing", "[on|off]", "Show the time of each phase of a statement."),
    CommandHelp("pager", "[on|off]", "Show long results in the pager."),
    CommandHelp("watch", "[DURATION]", "Repeat the last statement until Ctrl-C, e.g. every 5s."),
    CommandHelp("i", "FILE", "Run the SQL statements of a file."),
    CommandHelp("o", "[FILE]", "Write the following results to a file; without FILE, stop that."),
    CommandHelp("copy", "TABLE to FILE", "Write a table or a (QUERY) to a local file."),
    CommandHelp("copy", "TABLE from FILE", "Insert the rows of a local CSV or JSON file."),
    CommandHelp(
        "session", "[--create] [NAME]", "Show or change the session; `-` is the private one."
    ),
    CommandHelp("refresh", "", "Load the names for completion again."),
)
KEYS = (
    ("Enter", "run the text if it ends with `;`, else begin another line"),
    ("Alt-Enter", "run the text as it is, without `;`"),
    ("Tab", "complete a keyword, name or file"),
    ("Ctrl-R", "search the history"),
    ("Ctrl-C", "clear the text; while a statement runs, cancel it"),
    ("Ctrl-D", "leave the shell"),
)


def format_help() -> str:
    """Return the list of commands and keys, one per line."""
    width = max(len(command.usage) for command in COMMANDS)
    lines = [f"{command.usage.ljust(width)}  {command.summary}" for command in COMMANDS]
    lines += ["", *(f"{key.ljust(width)}  {effect}" for key, effect in KEYS)]
    return "\n".join(lines)
