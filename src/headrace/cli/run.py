"""Running the statements of a command one after another in one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.cli.follow import follow, has_ended, interrupted, tell_left
from headrace.cli.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.options import OnError
from headrace.cli.progress import REDRAW, ProgressLine
from headrace.cli.result_printer import ResultPrinter, exit_code
from headrace.cli.script import SourceStatement
from headrace.cli.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT, HeadraceError

_FIRST_WAIT = 1.0
"""Seconds that a submit waits for the end; short, because a submit is not broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to run the statements."""

    fields: dict[str, Any] = field(default_factory=dict)
    """What every submit says besides its text and session."""
    session: str | None = None
    """Id or name; None for a private one that the first submit makes."""
    private: bool = True
    """Close the session at the end."""
    on_error: OnError = OnError.STOP
    shown: int | None = None
    """The number of the only statement whose result is written; None for all."""
    limit: float | None = None
    """Seconds to wait for each statement before it is left running."""
    detach: bool = False


class Run:
    """One run over the statements of a command; gives the exit code."""

    def __init__(
        self,
        client: Client,
        terminal: Terminal,
        presenter: ResultPrinter,
        interrupts: Interrupts,
        plan: Plan,
    ) -> None:
        self._client = client
        self._terminal = terminal
        self._presenter = presenter
        self._interrupts = interrupts
        self._plan = plan
        self._session = plan.session
        self._left_running = False

    def run(self, pieces: Sequence[SourceStatement]) -> int:
        """0, or the exit code of the first statement that went wrong."""
        code = 0
        try:
            for piece in pieces:
                last = self._checked(piece)
                code = code or last
                if last == EXIT_INTERRUPTED:
                    return EXIT_INTERRUPTED
                if self._left_running or (last and self._plan.on_error is OnError.STOP):
                    break
        finally:
            self._close()
        return code

    def _checked(self, piece: SourceStatement) -> int:
        try:
            return self._one(piece)
        except HeadraceError as error:
            self._terminal.complaints.error(error, piece)
            return error.exit_code

    def _one(self, piece: SourceStatement) -> int:
        statement = self._submit(piece)
        if self._plan.detach:
            self._terminal.out.write(statement["id"] + "\n")
            return 0
        progress = ProgressLine(self._terminal.err, enabled=self._terminal.narrates)
        try:
            statement = follow(
                self._client, statement, self._interrupts, progress, limit=self._plan.limit
            )
        except Interrupted:
            self._left_running = not interrupted(self._client, statement, self._terminal)
            return EXIT_INTERRUPTED
        if not has_ended(statement):
            self._left_running = True
            tell_left(statement, self._terminal)
            return EXIT_TIMEOUT
        return self._present(statement, piece)

    def _submit(self, piece: SourceStatement) -> Json:
        wait = REDRAW if self._terminal.narrates else _FIRST_WAIT
        if self._plan.limit is not None:
            wait = min(wait, self._plan.limit)
        body: dict[str, Any] = {"statement": piece.text, **self._plan.fields}
        if self._session is not None:
            body["session"] = self._session
        if not self._plan.detach:
            body["wait_timeout"] = f"{wait:g}s"
        statement = self._client.submit(body)
        if self._session is None and statement["kind"] == "interactive":
            self._session = statement["session_id"]
        return statement

    def _present(self, statement: Json, piece: SourceStatement) -> int:
        code = exit_code(statement)
        with self._interrupts.stoppable():
            if code:
                self._presenter.failed(statement, piece)
                return code
            if self._plan.shown in {None, piece.number}:
                self._presenter.result(statement)
            self._presenter.told(statement)
        return 0

    def _close(self) -> None:
        if not self._plan.private or self._session is None:
            return
        if self._plan.detach or self._left_running:
            return
        self._client.patience = 0
        try:
            self._client.close_session(self._session)
        except HeadraceError as error:
            self._terminal.tell(f"The session {self._session} was left open: {error.message}")
