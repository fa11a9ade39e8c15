"""Text for people: numbers with their nouns. Terminals test the escapes of control characters."""

from __future__ import annotations

import pytest

from headrace.text.readable import describe_count


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1200, "1,200 rows")],
)
def test_a_noun_follows_its_number(number: int, text: str) -> None:
    assert describe_count(number, "row") == text


def test_a_plural_can_be_any_text() -> None:
    assert describe_count(1, "batch", "batches") == "1 batch"
    assert describe_count(3, "job changes", "jobs change") == "3 jobs change"
