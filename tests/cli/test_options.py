from __future__ import annotations

import pytest

from headrace.cli.options import pairs, parameters, seconds
from headrace.errors import InvalidRequest


def test_pairs_end_at_the_first_equals_sign() -> None:
    assert pairs(["a=b=c", "d="], "--conf") == {"a": "b=c", "d": ""}
    for wrong in ("a", "=b"):
        with pytest.raises(InvalidRequest, match="--conf KEY=VALUE"):
            pairs([wrong], "--conf")


def test_parameters() -> None:
    assert parameters(["a=x:y", "b:ARRAY<INT>=1", "=q", ":INT=5", "c="]) == [
        {"name": "a", "value": "x:y"},
        {"name": "b", "type": "ARRAY<INT>", "value": "1"},
        {"value": "q"},
        {"type": "INT", "value": "5"},
        {"name": "c", "value": ""},
    ]
    with pytest.raises(InvalidRequest, match="NAME=VALUE"):
        parameters(["a"])


def test_durations_need_a_unit() -> None:
    assert seconds("1.5 min", "--wait") == 90
    with pytest.raises(InvalidRequest, match="--wait: '3' is not a duration"):
        seconds("3", "--wait")
