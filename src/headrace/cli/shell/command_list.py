"""The backslash commands of the shell, as data for help, completion, hints and the reference."""

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
    CommandHelp("h", "[NAME]", "Describe a function; without NAME, show where Spark's SQL is."),
    CommandHelp(
        "d", "[NAME]", "List the tables of the database, or describe one; `db.*` lists db."
    ),
    CommandHelp("d+", "NAME", "Describe a table with its details."),
    CommandHelp("dt", "[PATTERN]", "List tables and views; `db.*` lists those of db."),
    CommandHelp("dv", "[PATTERN]", "List views."),
    CommandHelp("dn", "[PATTERN]", "List databases."),
    CommandHelp("df", "[PATTERN]", "List functions; without PATTERN, those of users."),
    CommandHelp("sv", "NAME", "Show the statement that creates a table or view."),
    CommandHelp("l", "", "List catalogs, and the databases of the current catalog."),
    CommandHelp("c", "[NAME]", "Use another database, or CATALOG.DATABASE; without NAME, show it."),
    CommandHelp("conninfo", "", "Show the node, the session and the database."),
    CommandHelp("g", "[FILE]", "Run the typed or the last statement; write its result to a file."),
    CommandHelp("gx", "[FILE]", "Do the same, and show the rows vertically."),
    CommandHelp("e", "[FILE]", "Edit the last statement, or a file, in the editor, and run it."),
    CommandHelp("x", "[on|off|auto]", "Show rows vertically: always, never, or if they are wide."),
    CommandHelp("timing", "[on|off]", "Show the time of each phase of a statement."),
    CommandHelp("pager", "[on|off]", "Show long results in the pager."),
    CommandHelp("watch", "[DURATION]", "Repeat the last statement until Ctrl-C, e.g. every 5s."),
    CommandHelp("i", "FILE", "Run the SQL statements of a file."),
    CommandHelp("o", "[FILE]", "Write the following results to a file; without FILE, stop that."),
    CommandHelp("copy", "TABLE to FILE", "Write a table or a (QUERY) to a local file."),
    CommandHelp("copy", "TABLE from FILE", "Load a local file into a table, new or not."),
    CommandHelp("echo", "[TEXT]", "Print a text."),
    CommandHelp("!", "[COMMAND]", "Run a command of the system, or its shell."),
    CommandHelp(
        "session", "[--create] [NAME]", "Show or change the session; `-` is the private one."
    ),
    CommandHelp("refresh", "", "Load the names for completion again."),
)
COUNTERPARTS = {
    "a": "use --format csv, or \\o FILE",
    "begin": "write BEGIN … END; for a script, or run single statements: each is a transaction",
    "cd": "use \\! for commands of the system, and whole paths for files",
    "connect": "use \\c NAME",
    "crosstabview": "use SELECT … PIVOT",
    "dC": "Spark's casts are fixed; \\h shows where they are described",
    "dT": "Spark has no types of users; \\h shows where its types are described",
    "da": "use \\df",
    "db": "use DESCRIBE TABLE EXTENDED, which shows the location of a table",
    "dd": "use \\d+ NAME, which shows comments",
    "det": "use \\dt",
    "di": "Spark has no indexes; \\d+ NAME shows partitions and buckets",
    "dm": "use SHOW MATERIALIZED VIEWS",
    "dp": "Spark has no privileges; see the permissions of the catalog",
    "ds": "Spark has no sequences; use uuid(), or monotonically_increasing_id()",
    "du": "the node's operator names the owners; \\conninfo shows yours",
    "dx": "use SHOW JARS, and \\df for functions of users",
    "encoding": "all texts are UTF-8",
    "errverbose": "start the shell with --debug",
    "f": "use --format tsv, or \\o FILE",
    "gdesc": "write DESCRIBE QUERY before the query",
    "gexec": "use EXECUTE IMMEDIATE",
    "gset": "write SET VAR name = (SELECT …)",
    "include": "use \\i FILE",
    "ir": "use \\i FILE",
    "p": "the prompt shows what is typed; the Up key shows the last text",
    "password": "tokens are made by the operator of the node; see HEADRACE_TOKEN",
    "prompt": "write DECLARE VARIABLE name = value",
    "pset": "use \\x, \\pager, or --format",
    "qecho": "use \\echo TEXT",
    "quit": "use \\q",
    "r": "press Ctrl-C to clear the text",
    "s": "press Ctrl-R to search the history",
    "set": "write SET key = value for Spark's settings, or DECLARE VARIABLE name = value",
    "sf": "use \\h NAME",
    "t": "use \\o FILE, or --format csv",
    "unset": "write RESET key, or DROP TEMPORARY VARIABLE name",
    "w": "use \\e, and save the text in the editor",
    "z": "Spark has no privileges; see the permissions of the catalog",
}
"""What does the same as a command of psql that the shell does not have."""
KEYS = (
    ("Enter", "run the text if it ends with `;`, else begin another line"),
    ("Alt-Enter", "run the text as it is, without `;`"),
    ("\\g, \\gx", "at the end of a text: run it, and show the rows vertically with \\gx"),
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
