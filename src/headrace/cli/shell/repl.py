"""The loop of the shell: read an input, run it, show the next prompt."""

from __future__ import annotations

import signal
import sys
import termios
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from prompt_toolkit import PromptSession

from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.cli.shell.commands import CommandRunner
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.printer import Display
from headrace.cli.shell.prompt import Entry, split_input
from headrace.cli.support.interrupts import EXIT_INTERRUPTED, Interrupted
from headrace.cli.support.script import SourceStatement
from headrace.cli.support.terminal import Terminal
from headrace.errors import HeadraceError

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
