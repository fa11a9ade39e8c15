"""The number of values of a body is limited before the body is parsed."""

from __future__ import annotations

import pytest

from headrace.frontends.http.strict_json import has_more_values


@pytest.mark.finding("S16")
@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"[1,1,1]", 3),
        (b'["a,b",",,,,[[[{{{"]', 2),
        (b'{"a": ",,,,", "b": [1, 2]}', 4),
        (b'["\\",,,,", "\\\\", 1]', 3),
    ],
)
def test_text_inside_strings_is_not_counted(body: bytes, values: int) -> None:
    assert not has_more_values(body, values)
    assert has_more_values(body, values - 1)


@pytest.mark.finding("S16")
@pytest.mark.parametrize("end", [b"", b"\\"])
def test_a_string_without_an_end_is_read_once(end: bytes) -> None:
    """A search that begins again at every quote of such a string takes hours for a large body."""
    assert not has_more_values(b'["' + b'\\",' * 1000 + end, 1)
