"""The start and the end of a shell. The import takes 0.2 s, which only the shell should cost."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from headrace import __version__
from headrace.cli.shell.catalog_cache import CatalogCache, load_names
from headrace.cli.shell.commands import CommandRunner
from headrace.cli.shell.completion import ShellCompleter
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.printer import Display, PagedStream
from headrace.cli.shell.prompt import make_prompt, redraw
from headrace.cli.shell.repl import Shell
from headrace.cli.shell.session import ShellOptions, ShellSession
from headrace.cli.support.command import CommandContext
from headrace.cli.support.discovery import find_node
from headrace.cli.support.interrupts import Interrupts
from headrace.cli.support.options import parse_seconds
from headrace.cli.support.terminal import EscapingStream, Terminal
from headrace.client.http import Client
from headrace.config.home import state_folder
from headrace.errors import HeadraceError
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
