"""Hooks: what accompanies a statement through its life."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points

from headrace.errors import DriverLost
from headrace.model.lifecycle import StatementState
from headrace.model.pending_hook_call import PendingHookCall

GROUP = "headrace.hooks"
"""Entry points where drivers run: each is a HookFactory."""
_LOG = logging.getLogger("headrace.driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFacts:
    """What a hook is told of the statement."""

    id: str
    session_id: str
    text: str
    attempt: int


class StatementHook:
    """Told of a statement's beginning and of its end, in the thread that runs it.

    What `on_created` or `on_finished` raises fails the statement. What the others raise is logged.
    """

    def on_created(self, statement: StatementFacts) -> None:
        """It is about to run."""

    def on_finished(self, statement: StatementFacts) -> None:
        """It has run to its end, and nobody has been told yet."""

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:
        """It has failed; nobody has been told yet."""

    def on_cancelled(self, statement: StatementFacts) -> None:
        """A cancel has stopped it."""


HookFactory = Callable[[StatementFacts], StatementHook | None]
"""What an entry point gives: a hook for a statement that it cares for."""


def load_hooks(statement: StatementFacts, *, binding: bool = True) -> list[StatementHook]:
    """The users' own hooks of a statement, in the order of their names.

    Raises what they raise, if that is `binding`.
    """
    made = []
    for factory in _factories():
        with _heard(statement, binding=binding):
            made.append(factory(statement))
    return [hook for hook in made if hook is not None]


def report_lost_attempt(statement: StatementFacts) -> None:
    """The users' hooks of an attempt whose driver was lost: it has failed."""
    error = DriverLost("The driver was lost that had it in hand.")
    for hook in load_hooks(statement, binding=False):
        with _heard(statement, binding=False):
            hook.on_failed(statement, error)


def report_ended_statements(ended: Iterable[PendingHookCall], session_id: str) -> None:
    """The users' hooks of statements that nobody runs again: their driver was lost with them."""
    for one in ended:
        facts = StatementFacts(
            id=one.statement_id, session_id=session_id, text=one.text, attempt=one.attempt
        )
        error = DriverLost(one.failure.message if one.failure else "The driver was lost.")
        for hook in load_hooks(facts, binding=False):
            with _heard(facts, binding=False):
                if one.state is StatementState.FAILED:
                    hook.on_failed(facts, error)
                else:
                    hook.on_cancelled(facts)


@contextmanager
def _heard(statement: StatementFacts, *, binding: bool) -> Iterator[None]:
    try:
        yield
    except Exception:
        if binding:
            raise
        _LOG.exception("statement %s: a hook failed, too late to change it", statement.id)


@lru_cache(maxsize=1)
def _factories() -> list[HookFactory]:
    """Looked for once: it takes longer than a small statement."""
    found = sorted(entry_points(group=GROUP), key=lambda one: one.name)
    return [one.load() for one in found]


class Hooks:
    """The hooks of one statement: the users', then Headrace's own."""

    def __init__(
        self, statement: StatementFacts, users: Sequence[StatementHook], own: StatementHook | None
    ) -> None:
        self._statement = statement
        self._users = users
        self._own = own
        self._created: list[StatementHook] = []

    def created(self, *, binding: bool = True) -> None:
        """Raises what a hook raises, the users' if that is `binding`.

        Those before it are told of the failure by the caller.
        """
        for hook in self._users:
            self._created.append(hook)
            with _heard(self._statement, binding=binding):
                hook.on_created(self._statement)
        if self._own is not None:
            self._created.append(self._own)
            self._own.on_created(self._statement)

    def finished(self, *, binding: bool = True) -> None:
        """As `created`; those after the one that raises have not been told then.

        What is not binding for a table comes after it: users are told when it is there.
        """
        if not binding and self._own is not None:
            self._created.remove(self._own)
            self._created.insert(0, self._own)
        while self._created:
            with _heard(self._statement, binding=binding or self._created[0] is self._own):
                self._created[0].on_finished(self._statement)
            self._created.pop(0)

    def failed(self, error: Exception) -> None:
        """Those that know of its beginning and not of its end."""
        for hook in reversed(self._created):
            with _heard(self._statement, binding=False):
                hook.on_failed(self._statement, error)

    def cancelled(self) -> None:
        """The same after a cancel."""
        for hook in reversed(self._created):
            with _heard(self._statement, binding=False):
                hook.on_cancelled(self._statement)
