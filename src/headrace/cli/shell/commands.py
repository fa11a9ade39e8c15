"""The backslash commands of the shell."""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from headrace.cli.output.formats import OutputFormat, format_of_file
from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.cli.shell.command_list import COMMANDS, COUNTERPARTS, format_help
from headrace.cli.shell.copy_command import copy_from, copy_to, parse_copy, parse_file, split_words
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.printer import Display, PagedStream
from headrace.cli.shell.session import ShellSession
from headrace.cli.support.interrupts import Interrupts
from headrace.cli.support.listing import write_object
from headrace.cli.support.options import parse_seconds
from headrace.cli.support.readable import describe_session, format_local_time
from headrace.cli.support.script import (
    Source,
    SourceStatement,
    parse_listing,
    parse_name,
    parse_pattern,
    read_sources,
    split_sources,
)
from headrace.cli.support.session_option import SessionOption
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client
from headrace.errors import InvalidRequest
from headrace.text.readable import describe_duration

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


def _describe(arguments: str) -> str:
    if not arguments:
        return "SHOW TABLES"
    pattern = parse_pattern(arguments)
    if pattern is not None:
        return f"SHOW TABLES {pattern}"
    return f"DESCRIBE TABLE {parse_name(arguments)}"


def _describe_extended(arguments: str) -> str:
    return f"DESCRIBE TABLE EXTENDED {_required_name('d+', arguments)}"


def _show_definition(arguments: str) -> str:
    return f"SHOW CREATE TABLE {_required_name('sv', arguments)}"


def _required_name(command: str, arguments: str) -> str:
    if not arguments:
        raise InvalidRequest(f"The name of the table is missing: \\{command} NAME.")
    return parse_name(arguments)


def _list(what: str) -> Callable[[str], str]:
    return lambda arguments: f"SHOW {what} {parse_listing(arguments)}".rstrip()


def _list_functions(arguments: str) -> str:
    return _list("FUNCTIONS" if arguments else "USER FUNCTIONS")(arguments)


def _list_databases(arguments: str) -> str:
    return _list("DATABASES")(arguments)


def make_statements() -> dict[str, Callable[[str], str]]:
    """Return the functions that make the statements of commands from their arguments."""
    return {
        "d": _describe,
        "d+": _describe_extended,
        "dt": _list("TABLES"),
        "dv": _list("VIEWS"),
        "dn": _list_databases,
        "df": _list_functions,
        "sv": _show_definition,
        "l": lambda _: "SHOW CATALOGS; SHOW DATABASES",
    }


_TYPING_ERROR = 0.7
"""Likeness from which a command is what a user has meant to type."""
_SQL_REFERENCE = (
    "Spark's SQL: https://spark.apache.org/docs/latest/sql-ref-syntax.html. "
    "\\h NAME describes a function."
)
_STATEMENT_VERBS = frozenset(
    {
        *("ALTER", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "INSERT", "MERGE"),
        *("SELECT", "SET", "SHOW", "UPDATE", "USE", "WITH"),
    }
)
_WATCH_PAUSE = "2s"
_SHORTEST_PAUSE = 0.1
_SESSION_FIELDS = ("id", "name", "state", "profile", "owner", "created_at", "idle_timeout")


class CommandRunner:
    """Runs backslash commands. They return exit codes, as statements do."""

    def __init__(
        self,
        client: Client,
        terminal: Terminal,
        session: ShellSession,
        display: Display,
        executor: Executor,
        cache: CatalogCache,
        pager: PagedStream,
    ) -> None:
        self._client = client
        self._terminal = terminal
        self._session = session
        self._display = display
        self._executor = executor
        self._cache = cache
        self._pager = pager
        self.has_quit = False
        self.last_statement: SourceStatement | None = None
        """What `\\watch` repeats."""
        self._commands: dict[str, Callable[[str], int]] = {
            name: partial(self._run_made, make) for name, make in make_statements().items()
        }
        self._commands |= {
            "?": self._help,
            "q": self._quit,
            "h": self._describe_function,
            "c": self._connect,
            "conninfo": self._show_connection,
            "g": self._run_again,
            "gx": partial(self._run_again, is_vertical=True),
            "e": self._edit,
            "x": self._set_vertical,
            "timing": self._set_timing,
            "pager": self._set_pager,
            "watch": self._watch,
            "i": self._run_file,
            "o": self._set_output,
            "copy": self._copy,
            "echo": self._echo,
            "!": self._run_system,
            "session": self._show_or_switch_session,
            "refresh": self._refresh,
        }

    def run(self, line: str) -> int:
        r"""Run a command such as `\d sales`. Return 0, or the exit code of its statement.

        Raises:
            InvalidRequest: The command does not exist, or its arguments are wrong.
        """
        words = line.removeprefix("\\").split(maxsplit=1)
        name, arguments = (*words, "", "")[:2]
        if name.startswith("!"):  # `\\!ls` needs no space, and its `;` belongs to the command
            return self._run_system(line.strip().removeprefix("\\!").strip())
        name = name.rstrip(";")
        command = self._commands.get(name)
        if command is None:
            raise InvalidRequest(f"There is no command \\{name}.", hint=find_hint(name))
        return command(arguments.strip().removesuffix(";").rstrip())

    def close(self) -> None:
        """Close the file that receives the results. Raises OSError if it cannot be written."""
        stream, self._display.output_file = self._display.output_file, None
        if stream is not None:
            stream.close()

    def _help(self, _arguments: str) -> int:
        self._terminal.out.write(format_help() + "\n")
        self._terminal.out.flush()
        return 0

    def _quit(self, _arguments: str) -> int:
        self.has_quit = True
        return 0

    def _run_made(self, make: Callable[[str], str], arguments: str) -> int:
        """Run the statement that a function makes from the arguments."""
        return self._run_own(make(arguments))

    def _run_own(self, text: str) -> int:
        return self._executor.run(split_sources([Source(None, text)]), self._display)

    def _describe_function(self, arguments: str) -> int:
        if arguments and arguments.split(maxsplit=1)[0].upper() not in _STATEMENT_VERBS:
            return self._run_own(f"DESCRIBE FUNCTION EXTENDED {parse_name(arguments)}")
        return self._echo(_SQL_REFERENCE)

    def _connect(self, arguments: str) -> int:
        if not arguments:
            return self._show_connection("")
        return self._run_own(f"USE {parse_name(arguments)}")

    def _show_connection(self, _arguments: str) -> int:
        session = self._client.session(self._session.id)
        place = self._session.namespace
        shown = {
            "node": self._client.address,
            "session": describe_session(session),
            "owner": session.get("owner"),
            "database": place and str(place),
        }
        write_object(self._terminal, shown, None)
        self._terminal.out.flush()
        return 0

    def _run_again(self, arguments: str, *, is_vertical: bool = False) -> int:
        if self.last_statement is None:
            raise InvalidRequest("There is no statement to run. Type one first.")
        display = replace(self._display, vertical="on") if is_vertical else self._display
        if not arguments:
            return self._executor.run([self.last_statement], display)
        file, output_format = self._choose_output("g", arguments)
        try:
            with file.open("w", encoding="utf-8", newline="\n") as stream:
                display = replace(display, output_file=stream, output_file_format=output_format)
                return self._executor.run([self.last_statement], display)
        except OSError as error:
            raise InvalidRequest(f"{file} cannot be written: {error.strerror}.") from error

    def _edit(self, arguments: str) -> int:
        if arguments:
            file = parse_file("e", arguments)
            code = edit_file(file)
            return code or self._run_file(f"'{file}'")
        text = self.last_statement.text if self.last_statement is not None else ""
        edited = edit(text)
        if edited is None or not edited.strip():
            self._terminal.info("There is no text to run.")
            return 0
        statements = split_sources([Source(None, edited)])
        self.last_statement = statements[-1]
        self._terminal.info(edited.rstrip())
        return self._executor.run(statements, self._display)

    def _echo(self, arguments: str) -> int:
        self._terminal.out.write(arguments + "\n")
        self._terminal.out.flush()
        return 0

    def _run_system(self, arguments: str) -> int:
        code = run_system_shell(arguments)
        if code:
            self._terminal.warn(f"The command ended with exit code {code}.")
        return 0

    def _set_vertical(self, arguments: str) -> int:
        switched = "auto" if self._display.vertical == "on" else "on"
        self._display.vertical = _choice("x", arguments, ("on", "off", "auto"), switched)
        self._terminal.info(f"Vertical rows: {self._display.vertical}.")
        return 0

    def _set_timing(self, arguments: str) -> int:
        self._display.timing = _switch("timing", arguments, present=self._display.timing)
        self._terminal.info(f"Timing: {'on' if self._display.timing else 'off'}.")
        return 0

    def _set_pager(self, arguments: str) -> int:
        self._pager.enabled = _switch("pager", arguments, present=self._pager.enabled)
        self._terminal.info(f"Pager: {'on' if self._pager.enabled else 'off'}.")
        return 0

    def _watch(self, arguments: str) -> int:
        pause = arguments or _WATCH_PAUSE
        seconds = max(parse_seconds(pause, "\\watch"), _SHORTEST_PAUSE)
        statement = self.last_statement
        if statement is None:
            raise InvalidRequest("There is no statement to repeat. Run one first.")

        def repeat(interrupts: Interrupts) -> int:
            while True:
                now = format_local_time(datetime.now(UTC).isoformat())
                every = describe_duration(seconds)
                self._terminal.info(f"{now} · every {every} · Ctrl-C ends")
                printer = self._executor.printer(self._display, paged=False)
                code = self._executor.run_interruptible([statement], printer, interrupts)
                if code:
                    return code
                self._executor.pause(seconds, interrupts)

        return self._executor.run_until_interrupt(repeat)

    def _run_file(self, arguments: str) -> int:
        name = str(parse_file("i", arguments))
        statements = split_sources(read_sources([], [name]))
        if not statements:
            self._terminal.info(f"{name} contains no statement.")
            return 0
        return self._executor.run(statements, self._display)

    def _set_output(self, arguments: str) -> int:
        if not arguments:
            self.close()
            self._terminal.info("Results go to the terminal.")
            return 0
        file, output_format = self._choose_output("o", arguments)
        try:
            stream = file.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise InvalidRequest(f"{file} cannot be written: {error.strerror}.") from error
        self.close()
        self._display.output_file = stream
        self._display.output_file_format = output_format
        self._terminal.info(f"Results go to {file} as {self._display.output_file_format}.")
        return 0

    def _choose_output(self, command: str, arguments: str) -> tuple[Path, OutputFormat]:
        """Return the file for results that the arguments name, and its format."""
        file = parse_file(command, arguments)
        of_file = format_of_file(file)
        if of_file is not None and of_file.is_binary:
            raise InvalidRequest(
                f"\\{command} writes text only, not {file.suffix}.",
                hint=f"use \\copy (QUERY) to '{file}'",
            )
        return file, self._display.default_format or of_file or OutputFormat.CSV

    def _copy(self, arguments: str) -> int:
        request = parse_copy(arguments)
        if request.is_load:
            return copy_from(request, self._client, self._session, self._executor, self._terminal)
        return copy_to(request, self._client, self._executor, self._terminal)

    def _show_or_switch_session(self, arguments: str) -> int:
        words = split_words("session", arguments)
        create = "--create" in words
        names = [word for word in words if word != "--create"]
        if len(names) > 1 or (create and not names):
            raise InvalidRequest("Write \\session, \\session NAME or \\session --create NAME.")
        if not names:
            session = self._client.session(self._session.id)
            shown = {key: session[key] for key in _SESSION_FIELDS if key in session}
            place = self._session.namespace
            write_object(self._terminal, shown | {"database": place and str(place)}, None)
            self._terminal.out.flush()
            return 0
        if names == ["-"]:
            self._session.use_private(self._client)
        else:
            option = SessionOption(names[0], create=create, profile=None, conf={})
            self._session.switch(self._client, option)
        self._cache.restart()
        return 0

    def _refresh(self, _arguments: str) -> int:
        self._cache.restart()
        return 0


def find_hint(name: str) -> str:
    """Return what does the same as a command that does not exist, or what may be meant."""
    usages = {command.name: command.usage for command in COMMANDS}
    plain = name.rstrip("+S")  # psql shows details with +, and system objects with S
    if counterpart := COUNTERPARTS.get(name) or COUNTERPARTS.get(plain):
        return counterpart
    if plain in usages:
        return f"use {usages[plain]}"
    close = difflib.get_close_matches(name, usages, n=1, cutoff=_TYPING_ERROR)
    if close:
        return f"did you mean {usages[close[0]]}? \\? lists all commands"
    return "\\? lists all commands"


def _choice(command: str, argument: str, choices: Sequence[str], default: str) -> str:
    if not argument:
        return default
    if argument.lower() not in choices:
        raise InvalidRequest(f"\\{command} {argument!r} is not valid. Write {', '.join(choices)}.")
    return argument.lower()


def _switch(command: str, argument: str, *, present: bool) -> bool:
    return _choice(command, argument, ("on", "off"), "off" if present else "on") == "on"
