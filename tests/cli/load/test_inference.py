"""Types of the columns of new tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.load.columns import TypeGuess
from headrace.cli.output.text import Number


def infer(*values: Any, is_text: bool = True) -> str:
    guess = TypeGuess(is_text=is_text)
    for value in values:
        guess.add(value)
    return guess.result().sql


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (("1", "-20", None), "bigint"),
        (("9223372036854775807", "-9223372036854775808"), "bigint"),
        (("9223372036854775808",), "decimal(19,0)"),
        (("9" * 39,), "string"),
        (("007", "1"), "string"),
        (("1", "2.50"), "double"),
        (("0.1", "1e-3", "NaN", "-Infinity"), "double"),
        (("12345678901234567.25",), "decimal(19,2)"),
        (("9007199254740993", "0.5"), "decimal(17,1)"),
        (("NaN",), "string"),
        (("true", "FALSE"), "boolean"),
        (("true", "1"), "string"),
        (("2024-02-29",), "date"),
        (("2023-02-29",), "string"),
        (("2024-02-29 10:00", "2024-02-29T10:00:00.5"), "timestamp_ntz"),
        (("2024-02-29 10:00:00+00", "2024-02-29T10:00:00.5Z"), "timestamp"),
        (("2024-02-29 10:00:00.123456789",), "string"),
        (("2024-02-29", "2024-02-29 10:00"), "string"),
        (("1", ""), "string"),
        ((None,), "string"),
        ((), "string"),
        (("[1]",), "string"),
    ],
)
def test_texts_get_the_narrowest_type_that_holds_all_of_them(
    values: tuple[Any, ...], type_: str
) -> None:
    assert infer(*values) == type_


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (("1",), "string"),
        ((Number("1"), Number("1.5")), "double"),
        ((True, None), "boolean"),
        (([], [Number("1")], [None]), "array<bigint>"),
        (([],), "array<string>"),
        (({"a": Number("1")}, {"b": ["x"]}), "struct<a:bigint,b:array<string>>"),
        (({},), "string"),
        (({"a": Number("1")}, "x"), "string"),
        ((["2024-01-31"],), "array<date>"),
    ],
)
def test_json_values_get_nested_types(values: tuple[Any, ...], type_: str) -> None:
    assert infer(*values, is_text=False) == type_


@given(st.lists(st.integers() | st.floats(), min_size=1))
def test_a_type_of_numbers_holds_each_of_them_exactly(numbers: list[float]) -> None:
    type_ = infer(*(repr(number) for number in numbers))
    if type_ == "double":
        assert all(isinstance(number, float) or int(float(number)) == number for number in numbers)
    elif type_ == "bigint":
        assert all(-(2**63) <= number < 2**63 for number in numbers)
