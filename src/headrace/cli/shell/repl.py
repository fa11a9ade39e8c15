"""The shell: its start, the loop that reads and runs inputs, and its end.

The import of this module takes 0.2 s, which only the shell should cost.
"""

from __future__ import annotations

import signal
import sys
import termios
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from headrace import __version__
from headrace.cli.shell.catalog_cache import CatalogCache, load_names
from headrace.cli.shell.commands import CommandRunner
from headrace.cli.shell.completion import ShellCompleter
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.printer import Display, PagedStream
from headrace.cli.shell.prompt import Entry, make_prompt, redraw, split_input
from headrace.cli.shell.session import ShellOptions, ShellSession
from headrace.cli.support.command import CommandContext
from headrace.cli.support.discovery import find_node
from headrace.cli.support.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.support.options import parse_seconds
from headrace.cli.support.script import SourceStatement
from headrace.cli.support.terminal import EscapingStream, Terminal
from headrace.client.http import Client
from headrace.config.home import state_folder
from headrace.errors import HeadraceError
from headrace.files.private_files import open_private_log

_LINE_MODES = termios.ECHO | termios.ICANON


class Shell:
    """The interactive loop."""

    def __init__(
        self,
        terminal: Terminal,
        display: Display,
        executor: Executor,
        commands: CommandRunner,
        cache: CatalogCache,
        prompt: PromptSession[str],
    ) -> None:
        self._terminal = terminal
        self._display = display
        self._executor = executor
        self._commands = commands
        self._cache = cache
        self._prompt = prompt

    def run(self) -> int:
        """Read and run inputs until the user leaves. Return the exit code."""
        with _keep_typed_keys():
            return self._run()

    def _run(self) -> int:
        while True:
            try:
                with _ending_signals():
                    text = self._prompt.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return 0
            except Interrupted:
                return EXIT_INTERRUPTED
            with self._cache.paused(), suppress(KeyboardInterrupt):
                self._run_input(text)
            if self._executor.terminated:
                return EXIT_INTERRUPTED
            if self._commands.has_quit:
                return 0

    def _run_input(self, text: str) -> None:
        """Run the entries of an input up to the first error."""
        for entry in split_input(text):
            try:
                code = self._run_entry(entry)
            except HeadraceError as error:
                self._terminal.errors.print_error(error)
                return
            except OSError as error:
                # For example, the disk of the file of \\o is full.
                self._terminal.warn(f"error: {error.strerror or error}")
                return
            except Exception as error:  # noqa: BLE001 - a fault of one command ends no session
                if self._terminal.debug:
                    traceback.print_exception(error, file=self._terminal.err)
                self._terminal.warn(f"error: {type(error).__name__}: {error}")
                return
            if code or self._commands.has_quit:
                return

    def _run_entry(self, entry: Entry) -> int:
        if entry.is_command:
            return self._commands.run(entry.text)
        statements: list[SourceStatement] = entry.statements
        if not statements:
            return 0
        self._commands.last_statement = statements[-1]
        if entry.waits_for_command:
            statements = statements[:-1]
        return self._executor.run(statements, self._display) if statements else 0


@contextmanager
def _keep_typed_keys() -> Iterator[None]:
    """Keep the keys that the user presses between two prompts for the next prompt.

    The terminal neither shows them, within the progress line, nor changes them: as usual it would
    turn Enter into another key, and lose Ctrl-D. Ctrl-C still is a signal. prompt_toolkit returns
    to this mode after each prompt.
    """
    descriptor = sys.stdin.fileno()
    usual = termios.tcgetattr(descriptor)
    input_modes, local_modes = usual[0] & ~termios.ICRNL, usual[3] & ~_LINE_MODES
    kept = [input_modes, *usual[1:3], local_modes, *usual[4:]]
    termios.tcsetattr(descriptor, termios.TCSANOW, kept)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, usual)


@contextmanager
def _ending_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into Interrupted during the block, so that the shell cleans up."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise Interrupted

    numbers = (signal.SIGTERM, signal.SIGHUP)
    previous: dict[int, Callable[..., Any] | int | None] = {}
    for number in numbers:
        previous[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, previous[number])


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


_NAMES_SECONDS = 5.0
"""Longest outage for the requests of completion. Not 0: the node closes idle connections."""
_LONGEST_PAUSE, _SHORTEST_PAUSE = 600.0, 1.0
"""Seconds between two statements that keep the private session open."""


def start_shell(context: CommandContext, shell_options: ShellOptions) -> int:
    """Run a shell until the user leaves it. Return the exit code."""
    session_option = shell_options.session_option()
    pager = PagedStream(sys.stdout)
    terminal = replace(context.terminal, out=cast("TextIO", EscapingStream(cast("TextIO", pager))))
    session = ShellSession(shell_options.profile, shell_options.conf)
    with Interrupts() as interrupts, interrupts.interruptible():
        client = context.connect(new_home=True)
        names_client = context.resources.enter_context(find_node(context.config, new_home=False))
    names_client.retry_seconds = _NAMES_SECONDS
    try:
        if shell_options.session is None:
            session.use_private(client)
        else:
            session.switch(client, session_option)
        _greet(terminal, session)
        cache = _make_cache(session, names_client)
        executor = Executor(client, terminal, pager, session, shell_options.fields)
        executor.on_names_changed = cache.invalidate
        executor.on_session_replaced = cache.restart
        display = Display(shell_options.output_format)
        commands = CommandRunner(client, terminal, session, display, executor, cache, pager)
        prompt = make_prompt(session, open_history(), ShellCompleter(cache))
        cache.on_loaded = lambda: redraw(prompt)
        cache.start()
        try:
            return Shell(terminal, display, executor, commands, cache, prompt).run()
        finally:
            cache.close()
            _close_output(commands, terminal)
    finally:
        _close_session(client, terminal, session)


def _greet(terminal: Terminal, session: ShellSession) -> None:
    kept = "closed with the shell" if session.is_private else "stays after the shell"
    name = session.name or session.id
    terminal.info(f"Headrace {__version__} · session {name}, {kept} · \\? for help")


def _make_cache(session: ShellSession, client: Client) -> CatalogCache:
    def keep_alive() -> None:
        if session.is_private or session.namespace is None:
            session.refresh_namespace(client)

    return CatalogCache(
        lambda lookup: load_names(client, session, lookup),
        keep_alive=keep_alive,
        keep_alive_seconds=lambda: _keep_alive_seconds(session),
    )


def _keep_alive_seconds(session: ShellSession) -> float:
    """Return the time after which a statement keeps the private session from ending as idle."""
    if session.idle_timeout is None:
        return _LONGEST_PAUSE
    seconds = parse_seconds(session.idle_timeout, "idle_timeout")
    return min(max(seconds / 3, _SHORTEST_PAUSE), _LONGEST_PAUSE)


def _close_output(commands: CommandRunner, terminal: Terminal) -> None:
    try:
        commands.close()
    except OSError as error:
        terminal.warn(f"error: The results were not written: {error.strerror or error}")


def _close_session(client: Client, terminal: Terminal, session: ShellSession) -> None:
    try:
        session.close(client)
    except HeadraceError as error:
        terminal.info(f"The private session was not closed: {error.message}")
