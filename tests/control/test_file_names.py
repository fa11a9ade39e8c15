"""Names of users as names of files."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from headrace.control.places import to_file_name

NAMES = st.one_of(st.text(min_size=1), st.sampled_from([".", "..", "a/b", "%2E", "../x"]))


@given(NAMES, NAMES)
def test_each_name_has_a_segment_of_its_own(first: str, second: str) -> None:
    segment = to_file_name(first)

    assert PurePosixPath("/a", segment).parent == PurePosixPath("/a")
    assert segment not in {"", ".", ".."}
    assert (segment == to_file_name(second)) == (first == second)
