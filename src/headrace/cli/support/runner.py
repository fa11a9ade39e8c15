"""Execution of the statements of a command, one after another in one session."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.cli.support.follow import (
    cancel_interrupted,
    follow_statement,
    has_ended,
    is_outage,
    print_attach_hint,
)
from headrace.cli.support.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.support.options import OnError, parse_seconds
from headrace.cli.support.progress import REDRAW_SECONDS, ProgressLine
from headrace.cli.support.result_printer import ResultPrinter, exit_code
from headrace.cli.support.script import SourceStatement
from headrace.cli.support.session_option import explain_missing_session
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT, HeadraceError
from headrace.grammar.parse import ParsedStatement, parse
from headrace.model.lifecycle import StatementState
from headrace.text.readable import describe_duration

_FIRST_WAIT = 1.0
"""Seconds that a submit waits for the end. Short, because signals do not interrupt a submit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options for the statements of one command."""

    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of every submit, apart from the text and the session."""
    session: str | None = None
    """Id or name of the session. None: the command creates one if its statements must share one."""
    private: bool = True
    """Whether to close the session at the end, if the command has created it."""
    on_error: OnError = OnError.STOP
    only_result: int | None = None
    """Number of the only statement whose result is printed; None prints all results."""
    limit: float | None = None
    """Seconds to wait for each statement; after that it continues without the command."""
    detach: bool = False
    """Whether to print the id of each statement and not wait for its end."""

    @property
    def kind(self) -> str:
        """Kind of the statements."""
        return str(self.fields.get("kind", "interactive"))


def needs_session(statements: Sequence[SourceStatement], options: RunOptions) -> bool:
    """Return whether a later statement may depend on what an earlier one changes in the session."""
    earlier = [_parse_spark(source.text) for source in statements[:-1]]
    may_change = any(parsed is not None and not parsed.is_query for parsed in earlier)
    return options.kind == "interactive" and may_change


def runs_in_pool(statements: Sequence[SourceStatement], options: RunOptions) -> bool:
    """Return whether the first statement for Spark runs in the pool session of the user."""
    needs_driver = any(_parse_spark(source.text) for source in statements)
    in_own_session = options.session is not None or needs_session(statements, options)
    return options.kind == "interactive" and needs_driver and not in_own_session


class ScriptRunner:
    """Runs the statements of one command."""

    def __init__(
        self,
        client: Client,
        terminal: Terminal,
        printer: ResultPrinter,
        interrupts: Interrupts,
        options: RunOptions,
    ) -> None:
        self._client = client
        self._terminal = terminal
        self._printer = printer
        self._interrupts = interrupts
        self._options = options
        self._session = options.session
        self._share_session = False
        """Whether a later statement may depend on what an earlier one changes in the session."""
        self._statement_continues = False
        """Whether a statement continues to run after the command ends."""

    def run(self, statements: Sequence[SourceStatement]) -> int:
        """Run the statements. Return 0, or the exit code of the first one that did not succeed."""
        first_code = 0
        self._share_session = needs_session(statements, self._options)
        try:
            for source in statements:
                code = self._run_and_print_errors(source)
                first_code = first_code or code
                if code == EXIT_INTERRUPTED:
                    return EXIT_INTERRUPTED
                stop = code and self._options.on_error is OnError.STOP
                if self._statement_continues or stop:
                    break
        finally:
            self._close_session()
        return first_code

    def _run_and_print_errors(self, source: SourceStatement) -> int:
        try:
            return self._run_statement(source)
        except HeadraceError as error:
            self._terminal.errors.print_error(error, source)
            return error.exit_code

    def _run_statement(self, source: SourceStatement) -> int:
        submitted_at = time.monotonic()
        statement = self._submit(source)
        if self._options.detach:
            self._terminal.out.write(statement["id"] + "\n")
            return 0
        if not has_ended(statement):
            self._terminal.notice(f"Statement {statement['id']} was accepted.")
        try:
            return self._follow_and_print(statement, source, submitted_at)
        except HeadraceError as error:
            if is_outage(error):
                # The session of a statement that may still run must not be closed.
                self._statement_continues = True
                self._terminal.errors.print_error(error)
                print_attach_hint(statement, self._terminal)
                return error.exit_code
            raise

    def _follow_and_print(
        self, statement: Json, source: SourceStatement, submitted_at: float
    ) -> int:
        progress = ProgressLine(self._terminal.err, enabled=self._terminal.interactive)
        try:
            statement = follow_statement(
                self._client, statement, self._interrupts, progress, limit=self._options.limit
            )
        except Interrupted:
            ended = cancel_interrupted(self._client, statement, self._terminal)
            self._statement_continues = not ended
            return EXIT_INTERRUPTED
        if not has_ended(statement):
            self._statement_continues = True
            print_attach_hint(statement, self._terminal)
            return EXIT_TIMEOUT
        self._printer.client_seconds = time.monotonic() - submitted_at
        return self._print(statement, source)

    def _submit(self, source: SourceStatement) -> Json:
        wait = REDRAW_SECONDS if self._terminal.interactive else _FIRST_WAIT
        if self._options.limit is not None:
            wait = min(wait, self._options.limit)
        if self._session is None and self._share_session and _parse_spark(source.text):
            self._session = self._client.create_session({})["id"]
        body: dict[str, Any] = {"statement": source.text, **self._options.fields}
        if self._session is not None:
            body["session"] = self._session
        if not self._options.detach:
            body["wait_timeout"] = f"{wait:g}s"
        try:
            with explain_missing_session():
                return self._client.submit(body)
        except (Interrupted, HeadraceError) as error:
            if isinstance(error, Interrupted) or is_outage(error):
                self._statement_continues = True
                self._terminal.warn(
                    "The node did not confirm the statement, but may have accepted it. "
                    f"Check with: {self._terminal.suggest('statement', 'list')}"
                )
            raise

    def _print(self, statement: Json, source: SourceStatement) -> int:
        code = exit_code(statement)
        try:
            with self._interrupts.interruptible():
                if code:
                    self._printer.print_failure(statement, source, self._timeout_message(statement))
                    return code
                if self._options.only_result in {None, source.number}:
                    self._printer.print_result(statement)
                self._printer.print_footer(statement)
        except Interrupted:
            command = self._terminal.suggest("statement", "result", statement["id"])
            self._terminal.warn(f"Print the result with: {command}")
            raise
        return 0

    def _timeout_message(self, statement: Json) -> str | None:
        """Return a message that names the flag whose time a statement exceeded.

        Returns None if the statement did not time out, or if no flag of this command was the cause.
        """
        if statement["state"] != StatementState.TIMEOUT:
            return None
        # A statement that waited for too long is not cancelled: it never ran.
        ran = statement.get("cancel_reason") == "timeout"
        timeout = self._options.fields.get("timeout" if ran else "queue_timeout")
        if timeout is None:
            return None
        flag, event = (
            ("--timeout", "Cancelled after") if ran else ("--queue-timeout", "Not started within")
        )
        return f"{event} {describe_duration(parse_seconds(timeout, flag))} ({flag})."

    def _close_session(self) -> None:
        """Close a private session, unless one of its statements continues to run."""
        if not self._options.private or self._session is None:
            return
        if self._options.detach or self._statement_continues:
            return
        self._client.retry_seconds = 0
        try:
            self._client.close_session(self._session)
        except HeadraceError as error:
            self._terminal.info(f"The session {self._session} was not closed: {error.message}")


def _parse_spark(text: str) -> ParsedStatement | None:
    """Return the properties of a statement of Spark's, and None for any other text.

    The node reports the error of a text that cannot be parsed.
    """
    try:
        parsed = parse(text)
    except HeadraceError:
        return None
    return parsed if parsed.command is None else None
