"""When a driver looks for intents."""

from __future__ import annotations

import pytest

from headrace.driver.views import intents
from headrace.driver.views.intents import IntentWork


def test_the_work_is_due_again_at_once_if_it_found_intents() -> None:
    work = IntentWork(lambda: 3)
    assert work.is_due()
    work.run()

    assert work.is_due()


def test_a_search_that_found_nothing_is_followed_by_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = IntentWork(lambda: 0)
    assert work.is_due()
    work.run()
    assert not work.is_due()
    monkeypatch.setattr(intents, "_IDLE_SECONDS", 0.0)
    short = IntentWork(lambda: 0)
    assert short.is_due()
    short.run()

    assert short.is_due()


def test_only_one_search_runs_at_a_time() -> None:
    work = IntentWork(lambda: 0)

    assert work.is_due()
    assert not work.is_due()


def test_a_search_that_fails_is_followed_by_a_pause() -> None:
    def fail() -> int:
        raise OSError("no connection")

    work = IntentWork(fail)
    assert work.is_due()
    with pytest.raises(OSError, match="no connection"):
        work.run()

    assert not work.is_due()
