"""Hooks: told of beginning and end, each once, whatever the others do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.driver import hooks
from headrace.driver.ctas import StatementFacts, StatementHook
from headrace.driver.hooks import Hooks, load_hooks, report_ended_statements, report_lost_attempt
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.pending_hook_call import PendingHookCall

FACTS = StatementFacts(id="st_1", session_id="se_1", text="SELECT 1", attempt=1)


LOST = "The driver was lost that had it in hand."


class Noting(StatementHook):
    """Notes what it is told, and fails where it is to."""

    def __init__(self, name: str, told: list[str], fails: str = "") -> None:
        self._name = name
        self._told = told
        self._fails = fails

    def on_created(self, statement: StatementFacts) -> None:
        self._note("created", statement)

    def on_finished(self, statement: StatementFacts) -> None:
        self._note("finished", statement)

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:
        self._note(f"failed by {error}", statement)

    def on_cancelled(self, statement: StatementFacts) -> None:
        self._note("cancelled", statement)

    def _note(self, what: str, statement: StatementFacts) -> None:
        assert statement is FACTS
        self._told.append(f"{self._name} {what}")
        if what.startswith(self._fails or "never"):
            raise ValueError(f"not {what}")


def two(told: list[str], *, a: str = "", b: str = "") -> Hooks:
    return Hooks(FACTS, [Noting("a", told, a), Noting("b", told, b)], None)


def test_a_success_is_told_in_order() -> None:
    told: list[str] = []
    both = two(told)
    both.created()
    both.finished()
    # Who knows of the end is told of no other.
    both.failed(ValueError("late"))
    assert told == ["a created", "b created", "a finished", "b finished"]


def test_a_failure_is_told_backwards_and_to_all() -> None:
    told: list[str] = []
    both = two(told, b="failed")
    both.created()
    both.failed(ValueError("x"))
    assert told[2:] == ["b failed by x", "a failed by x"]


def test_a_cancel_is_told_to_all() -> None:
    told: list[str] = []
    both = two(told, b="cancelled")
    both.created()
    both.cancelled()
    assert told[2:] == ["b cancelled", "a cancelled"]


def test_who_was_not_told_of_the_beginning_is_not_told_of_the_end() -> None:
    told: list[str] = []
    both = two(told, a="created")
    with pytest.raises(ValueError, match="not created") as caught:
        both.created()
    both.failed(caught.value)
    assert told == ["a created", "a failed by not created"]


def test_who_refuses_the_end_keeps_it_from_the_rest() -> None:
    told: list[str] = []
    both = two(told, a="finished")
    both.created()
    with pytest.raises(ValueError, match="not finished") as caught:
        both.finished()
    both.failed(caught.value)
    assert told[2:] == ["a finished", "b failed by not finished", "a failed by not finished"]


def test_what_is_told_of_a_table_that_is_there_cannot_change_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Headrace's own goes first, and what the users' hooks raise is logged."""
    told: list[str] = []
    all_three = Hooks(FACTS, [Noting("a", told, "finished")], Noting("own", told))
    all_three.created()
    all_three.finished(binding=False)
    assert told == ["a created", "own created", "own finished", "a finished"]
    assert "too late to change it" in caplog.text


def test_what_headrace_itself_finds_wrong_counts_in_any_case() -> None:
    told: list[str] = []
    hooks_of_it = Hooks(FACTS, [Noting("a", told)], Noting("own", told, "finished"))
    hooks_of_it.created(binding=False)
    with pytest.raises(ValueError, match="not finished") as caught:
        hooks_of_it.finished(binding=False)
    hooks_of_it.failed(caught.value)
    assert told[2:] == ["own finished", "a failed by not finished", "own failed by not finished"]


def test_who_begins_again_is_told_of_the_loss(installed: list[str]) -> None:
    report_lost_attempt(FACTS)
    assert installed == [f"{name} failed by {LOST}" for name in "bz"]


def test_what_nobody_begins_again_is_told_of_by_the_next_driver(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "StatementFacts", lambda **_facts: FACTS)
    lost = Failure(code="driver_lost", message="It was killed.")
    ended = PendingHookCall(
        statement_id="st_1", text="", attempt=1, state=StatementState.FAILED, failure=lost
    )
    cancelled = ended.model_copy(update={"state": StatementState.CANCELLED, "failure": None})
    report_ended_statements([ended, cancelled], "se_1")
    assert installed == [
        f"{name} {end}" for end in ("failed by It was killed.", "cancelled") for name in "bz"
    ]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two entry points: one for every statement, one for none."""
    told: list[str] = []

    class Entry:
        def __init__(self, name: str, hook: StatementHook | None) -> None:
            self.name = name
            self._hook = hook

        def load(self) -> hooks.HookFactory:
            return lambda _statement: self._hook

    entries = [Entry("z", Noting("z", told)), Entry("n", None), Entry("b", Noting("b", told))]
    monkeypatch.setattr(hooks, "entry_points", lambda group: entries if group else [])
    hooks._factories.cache_clear()
    yield told
    hooks._factories.cache_clear()


def test_entry_points_give_hooks_in_the_order_of_their_names(installed: list[str]) -> None:
    Hooks(FACTS, load_hooks(FACTS), None).created()
    assert installed == ["b created", "z created"]
