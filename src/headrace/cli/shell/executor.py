"""Execution of statements in the session of the shell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headrace.cli.shell.printer import Display, PagedStream, ShellPrinter
from headrace.cli.shell.session import ShellSession
from headrace.cli.support.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.support.result_printer import ResultPrinter
from headrace.cli.support.runner import RunOptions, ScriptRunner
from headrace.cli.support.script import SourceStatement
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client
from headrace.errors import HeadraceError
from headrace.grammar.script import describe_verb

_LIMIT_FIELDS = frozenset({"row_limit", "byte_limit"})
_NAMESPACE_VERBS = frozenset({"USE", "SET", "BEGIN", "EXECUTE", "DROP DATABASE", "DROP SCHEMA"})
"""Statements after which another catalog or database may be the current one."""
_READING_VERBS = ("SELECT", "SHOW", "DESCRIBE", "EXPLAIN", "INSERT", "VALUES", "WITH", "TABLE")
"""First words of statements after which the names of completion stay valid."""


class Executor:
    """Runs statements one after another, and reports what they may have changed."""

    def __init__(
        self,
        client: Client,
        terminal: Terminal,
        pager: PagedStream,
        session: ShellSession,
        fields: dict[str, Any],
    ) -> None:
        """Prepare the execution; `fields` are sent with every statement of the user."""
        self._client = client
        self._terminal = terminal
        self._pager = pager
        self._session = session
        self._fields = fields
        self._is_paused = False
        self.on_session_replaced: Callable[[], None] = lambda: None
        self.on_names_changed: Callable[[], None] = lambda: None
        """Called after statements that may have created, dropped or renamed something."""
        self.terminated = False
        """Whether SIGTERM has arrived while a statement ran."""

    def run_until_interrupt(self, action: Callable[[Interrupts], int]) -> int:
        """Run an action that Ctrl-C and SIGTERM end. Return its exit code, or 130."""
        with Interrupts(self._announce_cancel) as interrupts:
            try:
                return action(interrupts)
            except Interrupted:
                return EXIT_INTERRUPTED
            finally:
                self.terminated |= interrupts.terminated

    def pause(self, seconds: float, interrupts: Interrupts) -> None:
        """Wait between two statements. Raises Interrupted at Ctrl-C."""
        self._is_paused = True
        try:
            with interrupts.interruptible():
                time.sleep(seconds)
        finally:
            self._is_paused = False

    def _announce_cancel(self) -> None:
        if not self._is_paused:
            self._terminal.notice("Cancelling … (press Ctrl-C again to stop waiting)")

    def run(self, statements: Sequence[SourceStatement], display: Display) -> int:
        """Run statements up to the first error, and print their results. Return the exit code."""
        printer = self.printer(display)
        return self.run_until_interrupt(
            lambda interrupts: self.run_interruptible(statements, printer, interrupts)
        )

    def printer(self, display: Display, *, paged: bool = True) -> ShellPrinter:
        """Return a printer to the screen, or to the file that the display names."""
        if display.output_file is not None:
            terminal = replace(self._terminal, out=display.output_file)
            return ShellPrinter(self._client, terminal, display, None)
        pager = self._pager if paged else None
        return ShellPrinter(self._client, self._terminal, display, pager)

    def run_interruptible(
        self,
        statements: Sequence[SourceStatement],
        printer: ResultPrinter,
        interrupts: Interrupts,
        *,
        fields: dict[str, Any] | None = None,
        limited: bool = True,
    ) -> int:
        """Run statements as `run` does, with another printer.

        Args:
            fields: Additional fields of each submit.
            limited: Whether the limits of the shell for rows and bytes apply.

        Raises:
            Interrupted: Ctrl-C was pressed while rows were printed.
        """
        chosen = {
            key: value for key, value in self._fields.items() if limited or key not in _LIMIT_FIELDS
        }
        options = RunOptions(
            fields=chosen | (fields or {}), session=self._session.id, private=False
        )
        runner = ScriptRunner(self._client, self._terminal, printer, interrupts, options)
        try:
            code = runner.run(statements)
        finally:
            self._follow_changes(statements)
        if code:
            self._replace_ended_session()
        return code

    def _follow_changes(self, statements: Sequence[SourceStatement]) -> None:
        verbs = [describe_verb(statement.text) for statement in statements]
        if all(verb.startswith(_READING_VERBS) for verb in verbs):
            return
        if any(verb in _NAMESPACE_VERBS for verb in verbs):
            self._session.refresh_namespace(self._client)
        self.on_names_changed()

    def _replace_ended_session(self) -> None:
        """Continue in a new private session if the present one has ended, and say so."""
        try:
            if not self._session.replace_ended(self._client):
                return
        except HeadraceError:
            return  # the error of the statement has been printed
        if not self._session.is_private:
            self._terminal.warn(
                f"Session {self._session.name or self._session.id} has ended. Choose another one "
                "with \\session NAME, or create one with \\session --create NAME."
            )
            return
        self._terminal.warn(
            f"The session of the shell has ended. The new session {self._session.id} has none of "
            "its views, settings and variables. Run the statement again."
        )
        self.on_session_replaced()
