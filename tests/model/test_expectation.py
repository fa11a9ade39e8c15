"""Counts of expectations, as a driver may report them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from headrace.model.expectation import MAX_EXPECTATIONS, ExpectationCounts

COUNTS = {
    "rows_in": 10,
    "rows_dropped": 3,
    "rows_written": 7,
    "expectations": [{"name": "positive", "violations": 3, "nulls": 1}],
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows_written": 8},
        {"rows_in": -1},
        {"rows_dropped": 11, "rows_written": None},
        {"rows_in": 2**63},
        {"rows_in": 10.0},
        {"expectations": [{"name": "positive", "violations": 11, "nulls": 0}]},
        {"expectations": [{"name": "positive", "violations": 1, "nulls": 2}]},
        {"expectations": [{"name": "a" * 91, "violations": 1, "nulls": 0}]},
        {"expectations": COUNTS["expectations"] * (MAX_EXPECTATIONS + 1)},  # type: ignore[operator]
    ],
    ids=[
        *("sum", "negative", "dropped", "large", "type", "violations", "nulls", "name", "many"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(wrong: dict[str, Any]) -> None:
    ExpectationCounts.model_validate(COUNTS)
    with pytest.raises(ValidationError):
        ExpectationCounts.model_validate(COUNTS | wrong)
