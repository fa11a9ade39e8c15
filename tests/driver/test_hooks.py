"""Statement hooks: each sees the beginning and the end of a statement exactly once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.driver import hooks
from headrace.driver.hooks import (
    Hooks,
    StatementFacts,
    StatementHook,
    load_hooks,
    report_ended_statements,
    report_lost_attempt,
)
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.statement import PendingHookCall

FACTS = StatementFacts(id="st_1", session_id="se_1", text="SELECT 1", attempt=1)


class RecordingHook(StatementHook):
    """Records its calls in a list that several hooks share, and raises an error in one of them."""

    def __init__(self, name: str, calls: list[str], fails_in: str = "") -> None:
        self._name = name
        self._calls = calls
        self._fails_in = fails_in

    def on_created(self, statement: StatementFacts) -> None:
        self._record("created", statement)

    def on_finished(self, statement: StatementFacts) -> None:
        self._record("finished", statement)

    def on_failed(self, statement: StatementFacts, error: Exception) -> None:
        self._record(f"failed by {error}", statement)

    def on_cancelled(self, statement: StatementFacts) -> None:
        self._record("cancelled", statement)

    def _record(self, call: str, statement: StatementFacts) -> None:
        assert statement is FACTS
        self._calls.append(f"{self._name} {call}")
        if self._fails_in and call.startswith(self._fails_in):
            raise ValueError(f"not {call}")


def two_hooks(calls: list[str], *, a: str = "", b: str = "") -> Hooks:
    return Hooks(FACTS, [RecordingHook("a", calls, a), RecordingHook("b", calls, b)], None)


def test_hooks_see_a_success_in_order_and_no_failure_after_it() -> None:
    calls: list[str] = []
    both = two_hooks(calls)
    both.notify_created()
    both.notify_finished()
    both.notify_failed(ValueError("late"))
    assert calls == ["a created", "b created", "a finished", "b finished"]


def test_all_hooks_see_a_failure_in_reverse_order_although_one_raises() -> None:
    calls: list[str] = []
    both = two_hooks(calls, b="failed")
    both.notify_created()
    both.notify_failed(ValueError("x"))
    assert calls[2:] == ["b failed by x", "a failed by x"]


def test_all_hooks_see_a_cancel_although_one_raises() -> None:
    calls: list[str] = []
    both = two_hooks(calls, b="cancelled")
    both.notify_created()
    both.notify_cancelled()
    assert calls[2:] == ["b cancelled", "a cancelled"]


def test_a_hook_that_did_not_see_the_beginning_does_not_see_the_end() -> None:
    calls: list[str] = []
    both = two_hooks(calls, a="created")
    with pytest.raises(ValueError, match="not created") as caught:
        both.notify_created()
    both.notify_failed(caught.value)
    assert calls == ["a created", "a failed by not created"]


@pytest.mark.parametrize(
    ("vetoes", "ends"),
    [
        ("a", ["a finished", "b failed by not finished"]),
        ("b", ["a finished", "b finished"]),
    ],
)
def test_each_hook_sees_exactly_one_end_of_a_statement_that_a_hook_vetoes(
    vetoes: str, ends: list[str]
) -> None:
    calls: list[str] = []
    both = two_hooks(calls, **{vetoes: "finished"})
    both.notify_created()
    with pytest.raises(ValueError, match="not finished") as caught:
        both.notify_finished()
    both.notify_failed(caught.value)
    assert calls[2:] == ends


def test_a_users_hook_cannot_veto_a_published_table(caplog: pytest.LogCaptureFixture) -> None:
    """Headrace's own hook comes first, and the error of the user's hook is logged."""
    calls: list[str] = []
    all_hooks = Hooks(FACTS, [RecordingHook("a", calls, "finished")], RecordingHook("own", calls))
    all_hooks.notify_created()
    all_hooks.notify_finished(can_veto=False)
    assert calls == ["a created", "own created", "own finished", "a finished"]
    assert "the outcome of the statement stays the same" in caplog.text


def test_headraces_own_hook_can_always_fail_the_statement() -> None:
    calls: list[str] = []
    all_hooks = Hooks(FACTS, [RecordingHook("a", calls)], RecordingHook("own", calls, "finished"))
    all_hooks.notify_created(can_veto=False)
    with pytest.raises(ValueError, match="not finished") as caught:
        all_hooks.notify_finished(can_veto=False)
    all_hooks.notify_failed(caught.value)
    assert calls[2:] == ["own finished", "a failed by not finished", "own failed by not finished"]


def test_hooks_see_the_lost_attempt_as_a_failure(installed: list[str]) -> None:
    report_lost_attempt(FACTS)
    message = "The driver that ran the statement was lost."
    assert installed == [f"{name} failed by {message}" for name in "bz"]


def test_hooks_see_the_end_of_statements_that_are_not_retried(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "StatementFacts", lambda **_facts: FACTS)
    lost = Failure(code="driver_lost", message="It was killed.")
    failed = PendingHookCall(
        statement_id="st_1", text="", attempt=1, state=StatementState.FAILED, failure=lost
    )
    cancelled = failed.model_copy(update={"state": StatementState.CANCELLED, "failure": None})
    report_ended_statements([failed, cancelled], "se_1")
    assert installed == [
        f"{name} {end}" for end in ("failed by It was killed.", "cancelled") for name in "bz"
    ]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Install three entry points, one of which returns no hook, and record the calls."""
    calls: list[str] = []

    class Entry:
        def __init__(self, name: str, hook: StatementHook | None) -> None:
            self.name = name
            self._hook = hook

        def load(self) -> hooks.HookFactory:
            return lambda _statement: self._hook

    entries = [
        Entry("z", RecordingHook("z", calls)),
        Entry("n", None),
        Entry("b", RecordingHook("b", calls)),
    ]
    monkeypatch.setattr(hooks, "entry_points", lambda group: entries if group else [])
    hooks._load_factories.cache_clear()
    yield calls
    hooks._load_factories.cache_clear()


def test_installed_hooks_run_in_the_order_of_their_entry_points_names(
    installed: list[str],
) -> None:
    Hooks(FACTS, load_hooks(FACTS), None).notify_created()
    assert installed == ["b created", "z created"]
