"""Hooks: what accompanies a statement through its life."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points

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


def registered(statement: StatementFacts) -> list[StatementHook]:
    """The users' own hooks of a statement, in the order of their names. Raises what they raise."""
    made = [factory(statement) for factory in _factories()]
    return [hook for hook in made if hook is not None]


@lru_cache(maxsize=1)
def _factories() -> list[HookFactory]:
    """Looked for once: it takes longer than a small statement."""
    found = sorted(entry_points(group=GROUP), key=lambda one: one.name)
    return [one.load() for one in found]


class Hooks:
    """The hooks of one statement, in the order of their registration."""

    def __init__(self, statement: StatementFacts, hooks: Sequence[StatementHook]) -> None:
        self._statement = statement
        self._hooks = hooks
        self._created: list[StatementHook] = []

    def created(self) -> None:
        """Raises what a hook raises; those before it are told of the failure by the caller."""
        for hook in self._hooks:
            self._created.append(hook)
            hook.on_created(self._statement)

    def finished(self) -> None:
        """Raises what a hook raises; those after it have not been told then."""
        while self._created:
            self._created[0].on_finished(self._statement)
            self._created.pop(0)

    def failed(self, error: Exception) -> None:
        """Those that know of its beginning and not of its end."""
        for hook in reversed(self._created):
            try:
                hook.on_failed(self._statement, error)
            except Exception:  # noqa: BLE001 - how the statement ended is settled
                _LOG.exception("statement %s: a hook failed after it", self._statement.id)

    def cancelled(self) -> None:
        """The same after a cancel."""
        for hook in reversed(self._created):
            try:
                hook.on_cancelled(self._statement)
            except Exception:  # noqa: BLE001 - how the statement ended is settled
                _LOG.exception("statement %s: a hook failed after its cancel", self._statement.id)
