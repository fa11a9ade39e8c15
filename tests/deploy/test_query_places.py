"""Places in a manifest file of positions in its query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deploy.load import load_manifests
from headrace.deploy.problems import SourceText
from headrace.deploy.query_places import find_query_place
from headrace.deploy.variables import replace_variables
from headrace.errors import Position
from headrace.grammar.text import offset_at, position_at

QUERIES = {
    "block": "sql: |\n  SELECT a,\n    b\n  FROM t\n",
    "folded": "sql: >-\n  SELECT a,\n  b\n  FROM t\n",
    "plain": "sql: SELECT a, b\n  FROM t\n",
    "quoted": 'sql: "SELECT a, b FROM t"\n',
}


@pytest.mark.parametrize("style", QUERIES)
@pytest.mark.parametrize("word", ["SELECT", "b", "FROM", "t"])
def test_a_word_of_the_query_is_found_in_the_file(style: str, word: str) -> None:
    text = f"name: j\ntarget-table: out\n{QUERIES[style]}"
    [loaded] = load_manifests([SourceText("j.yaml", text)]).manifests
    query = loaded.manifest.query_text
    position = position_at(query, query.index(word))
    place = find_query_place(loaded.query_places, query, position)

    assert place is not None
    assert text[offset_at(text, place) :].startswith(word)


def test_a_query_from_the_template_has_no_place_in_the_manifest() -> None:
    template = SourceText("template.yaml", "sql: SELECT 1\n")
    file = SourceText("j.yaml", "name: j\ntarget-table: out\n")
    [loaded] = load_manifests([file], template=template).manifests

    assert find_query_place(loaded.query_places, "SELECT 1", Position(1, 1)) is None


@given(st.text("${}NAB x\n"), st.text("${} x\n", max_size=5))
def test_offsets_of_a_text_with_variables_are_found_both_ways(text: str, value: str) -> None:
    replaced = replace_variables(text, {"NA": value, "B": "long value"})
    offsets = [replaced.offset_of(written) for written in range(len(text) + 1)]

    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (0, len(replaced.text))
    for written, offset in enumerate(offsets):
        back = replaced.written_offset(offset)
        assert back <= written
        if back == written and written < len(text) and "$" not in text:
            assert replaced.text[offset] == text[written]
