"""Fingerprints: what changes them, and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deploy.strategies import layouts, tokens

from headrace.deploy.definitions import NeededDefinitions, load_definitions
from headrace.deploy.fingerprint import configuration_fingerprint, query_fingerprint
from headrace.deploy.manifest import JobManifest
from headrace.deploy.problems import SourceText

SQL = "SELECT a FROM s"
CODE = "def f():\n    return 1  # one\n\nexecution_output = f()\n"
SCRIPT = "CREATE STREAM s FROM rate;\nSAVE STREAM s TO kafka OPTIONS ('topic' = 'x')"
DEFINITIONS = """
CREATE STREAM s (a INT) FROM kafka OPTIONS ('subscribe' = 't', 'maxOffsetsPerTrigger' = 5);
CREATE SINK k TO jdbc OPTIONS ('url' = 'u', 'dbtable' = 'd', 'password' = 'p');
CREATE TABLE db.a (x INT);
SET spark.sql.ansi.enabled = true;
"""


def build(**changes: Any) -> JobManifest:
    values: dict[str, Any] = {"name": "j", "target_table": "k", "sql": SQL}
    return JobManifest(**(values | changes))


def needed_for(manifest: JobManifest, text: str = DEFINITIONS) -> NeededDefinitions:
    definitions, problems = load_definitions([SourceText("d.sql", text)], {"A": "1"})
    assert problems == ()
    return definitions.needed_for(manifest)


def fingerprints(manifest: JobManifest, text: str = DEFINITIONS) -> tuple[str, str]:
    """Return the fingerprints of the query and of the configuration."""
    needed = needed_for(manifest, text)
    return query_fingerprint(manifest, needed), configuration_fingerprint(manifest, needed)


def changed(manifest: JobManifest, definitions: str = DEFINITIONS, **base: Any) -> str:
    """Return which fingerprints differ from those of the basic manifest."""
    before, after = fingerprints(build(**base)), fingerprints(manifest, definitions)
    names = ("query", "configuration")
    return " ".join(n for n, a, b in zip(names, before, after, strict=True) if a != b)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"on_query_change": "refuse"}, ""),
        ({"sql": "SELECT /* x */ a\nFROM s -- y\n;"}, ""),
        ({"sql": "SELECT b FROM s"}, "query"),
        ({"sql": "select a FROM s"}, "query"),
        ({"sql": "SELECT 'a' FROM s"}, "query"),
        ({"target_table": "k2"}, "query configuration"),  # no sink with a password
        ({"target_table": "`k`"}, ""),
        ({"output_mode": "update"}, "query"),
        ({"description": "x"}, "configuration"),
        ({"spark_properties": {"a": "1"}}, "configuration"),
        ({"trigger": "5 seconds"}, "configuration"),
        ({"session": "x"}, "configuration"),
        ({"metadata_columns": False}, "configuration"),
        ({"expect": [{"name": "a", "condition": "a > 0"}]}, "configuration"),
    ],
)
def test_each_key_belongs_to_the_query_or_to_the_configuration(
    changes: dict[str, Any], expected: str
) -> None:
    assert changed(build(**changes)) == expected


def test_the_spelling_of_a_trigger_does_not_count() -> None:
    assert changed(build(trigger="5  SECOND"), trigger="5 seconds") == ""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("(a INT)", "(a   INT) /* x */", ""),
        ("(a INT)", "(a BIGINT)", "query"),
        ("'subscribe' = 't'", "subscribe 't'", ""),
        ("'subscribe' = 't'", "'subscribe' = 'u'", "query"),
        ("'maxOffsetsPerTrigger' = 5", "'MAXOFFSETSPERTRIGGER' = 5", ""),
        ("'maxOffsetsPerTrigger' = 5", "'maxOffsetsPerTrigger' = 6", "configuration"),
        ("'maxOffsetsPerTrigger' = 5", "'kafka.group.id' = 'x'", "configuration"),
        ("'maxOffsetsPerTrigger' = 5", "'kafka.bootstrap.servers' = 'x'", "query configuration"),
        ("'maxOffsetsPerTrigger' = 5", "'startingOffsets' = 'latest'", "query configuration"),
        ("'password' = 'p'", "'password' = 'q'", "configuration"),
        ("'password' = 'p'", "'headrace.retry.enabled' = 'false'", "configuration"),
        ("'url' = 'u'", "'url' = 'v'", "query"),
        ("'dbtable' = 'd'", "'dbtable' = 'e'", "query"),
        ("(x INT)", "(x INT, y INT)", "query"),
        ("enabled = true", "enabled = false", "configuration"),
        ("CREATE SINK", "CREATE STREAM other FROM rate; CREATE SINK", ""),
        ("'url' = 'u', 'dbtable' = 'd'", "'dbtable' = 'd', 'url' = 'u'", ""),
    ],
)
def test_needed_definitions_count_and_options_that_tune_are_configuration(
    old: str, new: str, expected: str
) -> None:
    assert old in DEFINITIONS
    assert changed(build(), DEFINITIONS.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  # one", "", ""),
        ("    return", "  return", ""),
        ("return 1", "return 2", "query"),
    ],
)
def test_layout_and_comments_of_python_do_not_count(old: str, new: str, expected: str) -> None:
    code = {"sql": None, "code": CODE}
    assert changed(build(sql=None, code=CODE.replace(old, new)), **code) == expected


def test_code_that_is_not_python_counts_as_text() -> None:
    code = {"sql": None, "code": "from x import y z = 1"}
    assert changed(build(sql=None, code="from x import y  z = 1"), **code) == "query"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("\nSAVE", " -- x\nSAVE", ""),
        ("'topic' = 'x'", "'topic' = 'y'", "query"),
        ("'topic' = 'x'", "'topic' = 'x', 'kafka.acks' = 'all'", "configuration"),
        ("kafka OPTIONS", "kafka TRIGGER ONCE OPTIONS", "configuration"),
        ("kafka OPTIONS", "kafka OUTPUT MODE UPDATE OPTIONS", "query"),
        ("rate;", "rate OPTIONS (rowsPerSecond 5);", "configuration"),
        ("SAVE", "SELECT 1; SAVE", "query"),
    ],
)
def test_the_statements_of_a_script_count(old: str, new: str, expected: str) -> None:
    script = {"sql": None, "target_table": None, "script": SCRIPT}
    text = SCRIPT.replace(old, new)
    assert text != SCRIPT

    assert changed(build(**(script | {"script": text})), **script) == expected


def test_fingerprints_are_the_same_in_every_process() -> None:
    # Stored fingerprints are compared after an upgrade: this value must never change.
    query, configuration = fingerprints(build())

    assert query == "816d097e79e520fed1fe22ba4ca7007989a6e59cd9b31630f72ab8bdf6e541c6"
    assert configuration == "75d611e82a1dd15a7c4bd09187d4a899883fa71c5ed7e786175bdf69e5310ff8"


@given(tokens.flatmap(lambda words: st.tuples(layouts(words), layouts(words))))
def test_white_space_and_comments_never_change_a_fingerprint(texts: tuple[str, str]) -> None:
    one, other = (build(sql=text) for text in texts)

    assert fingerprints(one) == fingerprints(other)


_single_tokens = tokens.filter(lambda words: "1.5e-3" not in words)


@given(_single_tokens, _single_tokens)
def test_any_other_change_of_a_token_changes_the_fingerprint(
    one: list[str], other: list[str]
) -> None:
    none = NeededDefinitions()
    first, second = (query_fingerprint(build(sql=" ".join(words)), none) for words in (one, other))

    assert (first == second) == (one == other)


@given(tokens, st.data())
def test_white_space_and_comments_of_definitions_never_change_a_fingerprint(
    words: list[str], data: st.DataObject
) -> None:
    texts = []
    for _ in range(2):
        query = data.draw(layouts(words))
        create = data.draw(layouts(["CREATE", "STREAM", "s", "AS"]))
        view = data.draw(layouts(["CREATE", "VIEW", "a", "AS"]))
        sink = data.draw(layouts(["CREATE", "SINK", "k", "TO", "noop"]))
        texts.append(f"{create}{query};{view}{query};{sink}")

    assert fingerprints(build(), texts[0]) == fingerprints(build(), texts[1])
