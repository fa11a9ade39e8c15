from __future__ import annotations

import pytest

from headrace.cli.support.options import parse_pairs, parse_parameters, parse_seconds
from headrace.errors import InvalidRequest


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert parse_pairs(["a=b=c", "d="], "--conf") == {"a": "b=c", "d": ""}
    for argument in ("a", "=b"):
        with pytest.raises(InvalidRequest, match="--conf KEY=VALUE"):
            parse_pairs([argument], "--conf")


def test_parameters_have_a_value_and_optionally_a_name_and_a_type() -> None:
    assert parse_parameters(["a=x:y", "b:ARRAY<INT>=1", "=q", ":INT=5", "c="]) == [
        {"name": "a", "value": "x:y"},
        {"name": "b", "type": "ARRAY<INT>", "value": "1"},
        {"value": "q"},
        {"type": "INT", "value": "5"},
        {"name": "c", "value": ""},
    ]
    with pytest.raises(InvalidRequest, match="NAME=VALUE"):
        parse_parameters(["a"])


def test_durations_need_a_unit() -> None:
    assert parse_seconds("1.5 min", "--wait") == 90
    with pytest.raises(InvalidRequest, match="--wait: '3' is"):
        parse_seconds("3", "--wait")
