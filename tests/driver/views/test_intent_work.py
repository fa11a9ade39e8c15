"""When a driver looks for intents."""

from __future__ import annotations

import pytest

from headrace.driver.views import intents
from headrace.driver.views.intents import IntentWork
from headrace.grammar.secret_references import KnownSecrets
from headrace.model import text as model_text
from headrace.model.text import MAX_SUMMARY


def test_the_work_is_due_again_at_once_if_it_found_intents() -> None:
    work = IntentWork(lambda: 3)
    assert work.is_due()
    work.run()

    assert work.is_due()


@pytest.mark.parametrize("begin", [0, *range(985, 1001)])
def test_an_error_that_is_cut_inside_a_secret_has_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, begin: int
) -> None:
    known = KnownSecrets({"pg": "hunter2-and-more"})
    monkeypatch.setattr(model_text, "_hide_secrets", known.mask_text)
    error = "RuntimeError: "

    def fail() -> None:
        raise RuntimeError("x" * (begin - len(error)) + "hunter2-and-more" + "y" * 1000)

    message = intents._attempt("in_1", "drop", fail)
    assert message is not None
    assert len(message) == MAX_SUMMARY
    assert "hun" not in message + caplog.text


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
