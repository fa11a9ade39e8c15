"""Failures are bounded, whatever a user's SQL puts into a message."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.grammar.secret_references import KnownSecrets
from headrace.model.failure import Failure
from headrace.model.text import MAX_MESSAGE, MAX_SUMMARY, cut_text, hide_before_cuts

pytestmark = pytest.mark.finding("S8")


@pytest.mark.parametrize("letter", ["m", "ä", "😀"])
def test_a_long_message_and_a_long_trace_are_cut_with_a_mark(letter: str) -> None:
    failure = Failure(code="x", message=letter * 5_000_000, trace=letter * 5_000_000)
    for part in (failure.message, str(failure.trace)):
        assert len(part) == MAX_MESSAGE
        assert part.startswith(letter * 1000)
        assert part.endswith(f"{letter}… [cut]")


VALUE = "hunter2-and-more"


@pytest.fixture
def known() -> Iterator[KnownSecrets]:
    """Hide a value before this process cuts a text, as a driver does."""
    known = KnownSecrets({"pg": VALUE})
    hide_before_cuts(known.mask_text)
    yield known
    hide_before_cuts(None)


@pytest.mark.parametrize("inside", [0, 1, 8, len(VALUE) - 1, len(VALUE)])
def test_no_part_of_a_secret_remains_where_a_text_is_cut(known: KnownSecrets, inside: int) -> None:
    """A cut before the masking would leave the first characters of the value."""
    for mark in ("", "… [cut]"):
        for limit in (MAX_MESSAGE, MAX_SUMMARY):
            text = "x" * (limit - len(mark) - inside) + VALUE + "y" * 5000
            failure = Failure(code="x", message=text, trace=text)
            for cut in (failure.message, failure.trace or "", cut_text(text, limit)):
                assert "hun" not in known.mask(cut)
                assert "-m" not in cut[-100:]


def test_no_part_of_a_named_secret_remains_where_a_text_is_cut(known: KnownSecrets) -> None:
    text = "x" * (MAX_SUMMARY - 30) + " password='not known to the driver' y" + "y" * 100
    assert "not" not in known.mask_text(cut_text(text, MAX_SUMMARY))


def test_only_the_start_of_a_long_text_is_searched_for_secrets() -> None:
    """To search 20 MB takes seconds, in which no other thread of a driver runs."""
    searched = list[int]()

    def hide(text: str) -> str:
        searched.append(len(text))
        return text

    hide_before_cuts(hide)
    try:
        assert cut_text("x" * 20_000_000, MAX_MESSAGE) == "x" * (MAX_MESSAGE - 7) + "… [cut]"
    finally:
        hide_before_cuts(None)
    assert searched == [3 * MAX_MESSAGE]


@pytest.mark.parametrize("number", range(1, 5))
def test_no_part_of_a_long_secret_remains_where_the_search_ends(number: int) -> None:
    """The references are shorter than the values, so that the end of the search comes closer."""
    value = "".join(f"<{position}>" for position in range(8000))[: MAX_MESSAGE - number]
    known = KnownSecrets({"pg": value})
    hide_before_cuts(known.mask_text)
    try:
        cut = cut_text(value * 9, MAX_MESSAGE)
    finally:
        hide_before_cuts(None)
    assert "<" not in cut
    assert cut.endswith("… [cut]")


def test_a_message_of_exactly_the_limit_is_kept() -> None:
    assert Failure(code="x", message="ä" * MAX_MESSAGE).message == "ä" * MAX_MESSAGE


def test_the_failure_in_a_list_has_a_short_message_and_no_trace() -> None:
    summary = Failure(code="x", message="m" * 5000, trace="t", line=3).summarize()
    assert len(summary.message) == MAX_SUMMARY
    assert summary.message.endswith("m… [cut]")
    assert (summary.trace, summary.line) == (None, 3)
    short = Failure(code="x", message="m")
    assert short.summarize() == short
