"""Failures are bounded, whatever a user's SQL puts into a message."""

from __future__ import annotations

import pytest

from headrace.model.failure import Failure
from headrace.model.text import MAX_MESSAGE, MAX_SUMMARY

pytestmark = pytest.mark.finding("S8")


@pytest.mark.parametrize("letter", ["m", "ä", "😀"])
def test_a_long_message_and_a_long_trace_are_cut_with_a_mark(letter: str) -> None:
    failure = Failure(code="x", message=letter * 5_000_000, trace=letter * 5_000_000)
    for part in (failure.message, str(failure.trace)):
        assert len(part) == MAX_MESSAGE
        assert part.startswith(letter * 1000)
        assert part.endswith(f"{letter}… [cut]")


def test_a_message_of_exactly_the_limit_is_kept() -> None:
    assert Failure(code="x", message="ä" * MAX_MESSAGE).message == "ä" * MAX_MESSAGE


def test_the_failure_in_a_list_has_a_short_message_and_no_trace() -> None:
    summary = Failure(code="x", message="m" * 5000, trace="t", line=3).summarize()
    assert len(summary.message) == MAX_SUMMARY
    assert summary.message.endswith("m… [cut]")
    assert (summary.trace, summary.line) == (None, 3)
    short = Failure(code="x", message="m")
    assert short.summarize() == short
