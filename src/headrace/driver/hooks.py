"""Statement hooks: callbacks at the beginning and at the end of each statement."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points

from headrace.errors import DriverLost
from headrace.model.lifecycle import StatementState
from headrace.model.statement import PendingHookCall

GROUP = "headrace.hooks"
"""Group of entry points in the drivers' environment. Each entry point is a HookFactory."""
_LOG = logging.getLogger("headrace.driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFacts:
    """The facts about a statement that hooks receive."""

    id: str
    session_id: str
    text: str
    """SQL text; empty in the recovery of an orphaned transaction."""
    attempt: int
    """Number of the attempt, from 1; 0 in the recovery of an orphaned transaction."""


class StatementHook:
    """Base class of hooks. Each method runs in the thread of the statement, before the report.

    An error in `on_created` or `on_finished` fails the statement. An error in another method is
    only logged.
    """

    def on_created(self, statement: StatementFacts) -> None:
        """React to a statement that is about to run."""

    def on_finished(self, statement: StatementFacts) -> None:
        """React to a statement that has run successfully."""

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:
        """React to a statement that has failed."""

    def on_cancelled(self, statement: StatementFacts) -> None:
        """React to a statement that a cancel has stopped."""


HookFactory = Callable[[StatementFacts], StatementHook | None]
"""Returns the hook for a statement, or None if the statement needs no hook."""


def load_hooks(statement: StatementFacts, *, can_veto: bool = True) -> list[StatementHook]:
    """Create the installed hooks of a statement, in the order of their entry points' names.

    Args:
        can_veto: Whether to raise the error of a factory. Otherwise it is logged.
    """
    hooks = []
    for factory in _load_factories():
        with _handle_hook_error(statement, can_veto=can_veto):
            hooks.append(factory(statement))
    return [hook for hook in hooks if hook is not None]


def report_lost_attempt(statement: StatementFacts) -> None:
    """Create the hooks of an attempt whose driver was lost, and call their `on_failed`."""
    error = DriverLost("The driver that ran the statement was lost.")
    for hook in load_hooks(statement, can_veto=False):
        with _handle_hook_error(statement, can_veto=False):
            hook.on_failed(statement, error)


def report_ended_statements(pending: Iterable[PendingHookCall], session_id: str) -> None:
    """Call the hooks of statements that ended with their lost driver and are not retried."""
    for call in pending:
        statement = StatementFacts(
            id=call.statement_id, session_id=session_id, text=call.text, attempt=call.attempt
        )
        error = DriverLost(call.failure.message if call.failure else "The driver was lost.")
        for hook in load_hooks(statement, can_veto=False):
            with _handle_hook_error(statement, can_veto=False):
                if call.state is StatementState.FAILED:
                    hook.on_failed(statement, error)
                else:
                    hook.on_cancelled(statement)


@contextmanager
def _handle_hook_error(statement: StatementFacts, *, can_veto: bool) -> Iterator[None]:
    """Raise the error of a hook that can veto the statement, and log any other."""
    try:
        yield
    except Exception:
        if can_veto:
            raise
        _LOG.exception(
            "statement %s: a hook failed; the outcome of the statement stays the same", statement.id
        )


@lru_cache(maxsize=1)
def _load_factories() -> list[HookFactory]:
    """Load the entry points once per process: a search takes longer than a small statement."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return [entry.load() for entry in entries]


class Hooks:
    """The hooks of one statement: first the users' hooks, then Headrace's own hook."""

    def __init__(
        self, statement: StatementFacts, users: Sequence[StatementHook], own: StatementHook | None
    ) -> None:
        self._statement = statement
        self._users = users
        self._own = own
        self._active: list[StatementHook] = []
        """Hooks that were called at the beginning and not yet at the end."""

    @property
    def has_active(self) -> bool:
        """Whether a hook was called at the beginning and not yet at the end."""
        return bool(self._active)

    def notify_created(self, *, can_veto: bool = True) -> None:
        """Call `on_created` of each hook.

        After a raised error, no further hook is called. The caller then calls `notify_failed`,
        which reaches the hooks that were called so far.

        Args:
            can_veto: Whether to raise the error of a user's hook. Otherwise it is logged.
        """
        for hook in self._users:
            self._active.append(hook)
            with _handle_hook_error(self._statement, can_veto=can_veto):
                hook.on_created(self._statement)
        if self._own is not None:
            self._active.append(self._own)
            self._own.on_created(self._statement)

    def notify_finished(self, *, can_veto: bool = True) -> None:
        """Call `on_finished` of each hook until the first error, like `notify_created`.

        A user's hook that raises has seen the end: it gets no `on_failed`. If users' hooks cannot
        veto, Headrace's own hook comes first: users' hooks then run when the table is complete.
        """
        if not can_veto and self._own is not None:
            self._active.remove(self._own)
            self._active.insert(0, self._own)
        while self._active:
            hook = self._active[0]
            if hook is self._own:
                hook.on_finished(self._statement)
            # A table that Headrace's own hook cannot publish is removed by its `on_failed`.
            self._active.pop(0)
            if hook is not self._own:
                with _handle_hook_error(self._statement, can_veto=can_veto):
                    hook.on_finished(self._statement)

    def notify_failed(self, error: Exception) -> None:
        """Call `on_failed` of each hook that has not seen the end, in reverse order."""
        for hook in reversed(self._active):
            with _handle_hook_error(self._statement, can_veto=False):
                hook.on_failed(self._statement, error)

    def notify_cancelled(self) -> None:
        """Call `on_cancelled` of each hook that has not seen the end, in reverse order."""
        for hook in reversed(self._active):
            with _handle_hook_error(self._statement, can_veto=False):
                hook.on_cancelled(self._statement)
