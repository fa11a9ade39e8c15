"""Manifest files become manifests, or problems with their places."""

from __future__ import annotations

import time

import pytest

from headrace.deploy.load import LoadedManifests, load_manifests
from headrace.deploy.manifest import JobKind
from headrace.deploy.problems import MAX_EXPANDED, MAX_PROBLEMS, ManifestProblem, SourceText
from headrace.grammar.stream_clauses import OutputMode
from headrace.model.job import OnQueryChange

SQL = "name: j\ntarget-table: t\nsql: SELECT 1\n"
SCRIPT = "name: j\nscript: |\n  CREATE STREAM s FROM rate;\n  SAVE STREAM s TO noop\n"


def load(*texts: str, template: str | None = None, **variables: str) -> LoadedManifests:
    files = [SourceText(f"{n}.yaml", text) for n, text in enumerate(texts, 1)]
    defaults = None if template is None else SourceText("template.yaml", template)
    return load_manifests(files, template=defaults, variables=variables)


def single_problem(*texts: str, **variables: str) -> ManifestProblem:
    loaded = load(*texts, **variables)
    assert len(loaded.problems) == 1, loaded.problems
    return loaded.problems[0]


def test_a_manifest_with_all_keys_is_read() -> None:
    loaded = load(
        """
name: clicks
description: "Clicks of a day."
target-table: "`kafka`.`some-topic`"
sql: |
  SELECT a, -- the first
         b
  FROM clicks
spark-properties: {spark.a: true, spark.b: 1.50, spark.c: 0x10, spark.d: "x"}
trigger: 5 seconds
output-mode: Update
session: dedicated
metadata-columns: false
on-query-change: keep-compatible
meta: {query-id: a-b, query-version: 3, query-create-timestamp: 2022-12-07 08:57:42}
"""
    )

    assert loaded.problems == loaded.notes == ()
    manifest = loaded.manifests[0].manifest
    assert manifest.kind is JobKind.SQL
    assert manifest.sql == "SELECT a, -- the first\n       b\nFROM clicks\n"
    assert manifest.target == ("kafka", "some-topic")
    assert manifest.spark_properties == {
        "spark.a": "true",
        "spark.b": "1.50",
        "spark.c": "0x10",
        "spark.d": "x",
    }
    assert manifest.parsed_trigger is not None
    assert manifest.parsed_trigger.to_sql() == "TRIGGER 5 SECONDS"
    assert manifest.output_mode is OutputMode.UPDATE
    assert (manifest.session, manifest.metadata_columns) == ("dedicated", False)
    assert manifest.on_query_change is OnQueryChange.KEEP_COMPATIBLE
    meta = loaded.manifests[0].meta
    assert meta is not None
    assert (meta.query_version, meta.created_at.isoformat()) == (3, "2022-12-07T08:57:42+00:00")


def test_the_optional_keys_have_defaults() -> None:
    manifest = load(SQL).manifests[0].manifest

    assert (manifest.description, manifest.trigger, manifest.output_mode) == ("", None, None)
    assert (manifest.session, manifest.metadata_columns) == (None, True)
    assert manifest.on_query_change is OnQueryChange.RESET
    assert load(SQL + "trigger:\ndescription: null\n").manifests[0].manifest == manifest


def test_each_document_of_a_file_is_a_manifest() -> None:
    loaded = load(SQL + "---\n" + SQL.replace("name: j", "name: k"), SCRIPT.replace(" j", " l"))

    assert [item.manifest.name for item in loaded.manifests] == ["j", "k", "l"]
    assert [str(item.place) for item in loaded.manifests] == [
        "1.yaml:1:1",
        "1.yaml:5:1",
        "2.yaml:1:1",
    ]


PROBLEMS = {
    # Keys.
    SQL + "targt-table: x": (4, 1, "unknown_key", "Did you mean `target-table`?"),
    SQL + "spark_properties: {}": (4, 1, "unknown_key", "Did you mean `spark-properties`?"),
    SQL + "flink-properties: {}": (4, 1, "unknown_key", "Did you mean `flinkProperties`?"),
    SQL + "zzz: 1": (4, 1, "unknown_key", "Known keys: `name`"),
    "target-table: t\nsql: SELECT 1": (1, 1, "missing_key", "Give the job a name."),
    "name: j\nsql: SELECT 1": (1, 1, "missing_key", "Name the table or sink"),
    "name: j\ntarget-table: t": (1, 1, "missing_key", "Add one of the keys"),
    SQL + "code: x": (4, 1, "conflicting_keys", "Keep one of them."),
    SCRIPT + "target-table: t": (5, 1, "conflicting_keys", "SAVE STREAM"),
    SCRIPT + "trigger: once": (5, 1, "conflicting_keys", "SAVE STREAM"),
    SCRIPT + "output-mode: append": (5, 1, "conflicting_keys", "SAVE STREAM"),
    "# nothing\n": (1, 1, "missing_manifest", None),
    "a: [": (1, 5, "invalid_yaml", None),
    # Types.
    SQL + "description: 5": (4, 14, "invalid_value", None),
    SQL + "description: [x]": (4, 14, "invalid_value", None),
    SQL + "metadata-columns: yes": (4, 19, "invalid_value", None),
    SQL + "metadata-columns: 1": (4, 19, "invalid_value", None),
    SQL + "spark-properties: x": (4, 19, "invalid_value", None),
    SQL + "spark-properties:\n  a: [1]": (5, 6, "invalid_value", None),
    SQL + "spark-properties:\n  spark.headrace.retry.min.backoff: 1": (
        5,
        37,
        "invalid_value",
        None,
    ),
    SQL + "spark-properties:\n  a: b\n  headrace.ctas.atomicity: bogus": (
        6,
        28,
        "invalid_value",
        None,
    ),
    SQL + "spark-properties:\n  headrace.ctas.atomicty: auto": (5, 27, "invalid_value", None),
    SQL + "description: " + "9" * 5000: (4, 14, "invalid_value", None),
    SQL + "description: 1.5": (4, 14, "invalid_value", None),
    SQL + "trigger: 5": (4, 10, "invalid_value", None),
    SQL + "output-mode: foo": (4, 14, "invalid_value", "`append`, `complete` or `update`"),
    SQL + "on-query-change: drop": (4, 18, "invalid_value", "`reset`, `keep-compatible`"),
    SQL + "session: 1x": (4, 10, "invalid_value", "begins with a letter"),
    SQL + "meta: {query-id: a, query-version: 0, query-create-timestamp: 2022-12-07 08:57:42}": (
        4,
        36,
        "invalid_value",
        None,
    ),
    SQL + "meta: {query-id: a, query-version: 1, query-create-timestamp: now}": (
        4,
        63,
        "invalid_value",
        None,
    ),
    # Names.
    SQL.replace("name: j", "name: a/b"): (1, 7, "invalid_value", "at most 100 letters"),
    SQL.replace("name: j", "name: AdHoc"): (1, 7, "reserved_name", "Choose another name."),
    SQL.replace("table: t", "table: a.b.c.d"): (2, 15, "invalid_value", "backticks"),
    SQL.replace("table: t", "table: a.some-topic"): (2, 21, "invalid_value", None),
    SQL.replace("table: t", "table: ''"): (2, 15, "invalid_value", None),
    # Queries.
    SQL.replace("SELECT 1", "'  '"): (3, 6, "empty_statement", None),
    SQL.replace("SELECT 1", "-- only a comment"): (3, 6, "empty_statement", None),
    SQL.replace("SELECT 1", "|\n  SELECT 1;\n\n   SELECT 2"): (
        6,
        4,
        "multiple_statements",
        "script",
    ),
    SQL.replace("SELECT 1", "SAVE STREAM s TO noop"): (3, 6, "reserved_statement", "`script`"),
    SQL.replace("SELECT 1", "|\n  /* x */ STOP STREAM s"): (
        4,
        11,
        "reserved_statement",
        "`script`",
    ),
    SQL.replace("sql: SELECT 1", "code: ' '"): (3, 7, "empty_statement", "execution_output"),
    SQL + "trigger: 5  parsecs": (4, 13, "invalid_value", None),
    SQL + "trigger: ''": (4, 10, "invalid_value", None),
    "name: j\nscript: SELECT 1": (2, 9, "missing_query", "SAVE STREAM"),
    SCRIPT + "  ;\n  STOP STREAM s": (6, 3, "statement_not_allowed", "Allowed: CREATE STREAM"),
    SCRIPT + "  ;\n  SAVE STREAM s TO": (6, 19, "invalid_statement", None),
    SCRIPT.replace("STREAM s TO", "STREAM S TO") + "  ;\n  SAVE STREAM s TO console": (
        6,
        3,
        "duplicate_query",
        "IDENTIFIED BY",
    ),
    SCRIPT + "  ;\n  SAVE STREAM d.S TO console": (6, 3, "duplicate_query", "IDENTIFIED BY"),
}


@pytest.mark.parametrize(("text", "expected"), PROBLEMS.items())
def test_an_invalid_manifest_has_one_problem_at_its_place(
    text: str, expected: tuple[int, int, str, str | None]
) -> None:
    line, column, code, hint = expected
    problem = single_problem(text)

    assert (problem.path, problem.line, problem.column) == ("1.yaml", line, column), problem
    assert problem.code == code
    assert hint is None or hint in (problem.hint or ""), problem
    assert problem.message.endswith(".")


def test_all_problems_of_all_files_are_reported_at_once() -> None:
    loaded = load(
        SQL + "trigger: soon\nfoo: 1\nspark-properties: x\n",
        SCRIPT.replace(" j", " k"),
        "name: l\nscript: |\n  STOP STREAM a;\n  SHOW SINKS;\n  SAVE STREAM\n",
    )

    places = [(p.path, p.line, p.code) for p in loaded.problems]
    assert places == [
        ("1.yaml", 4, "invalid_value"),
        ("1.yaml", 5, "unknown_key"),
        ("1.yaml", 6, "invalid_value"),
        ("3.yaml", 3, "statement_not_allowed"),
        ("3.yaml", 4, "statement_not_allowed"),
        ("3.yaml", 5, "invalid_statement"),
    ]
    assert [item.manifest.name for item in loaded.manifests] == ["k"]


@pytest.mark.parametrize("name", ["j", "J"])
def test_two_manifests_with_one_name_are_refused_with_both_places(name: str) -> None:
    problem = single_problem(SQL, "# second\n" + SQL.replace("name: j", f"name: {name}"))

    assert (problem.path, problem.line, problem.code) == ("2.yaml", 2, "duplicate_job")
    assert "1.yaml:1:7" in problem.message
    assert ("differs only in case" in problem.message) == (name == "J")


def test_a_manifest_keeps_values_and_what_was_written() -> None:
    text = (
        SQL + "spark-properties: {p: '${PW}', q: '$${x}'}\ntrigger: ${T}\nmetadata-columns: ${M}\n"
    )
    loaded = load(text, PW="se: cret\nx", T="once", M="false")

    item = loaded.manifests[0]
    assert item.manifest.spark_properties == {"p": "se: cret\nx", "q": "${x}"}
    assert (item.manifest.trigger, item.manifest.metadata_columns) == ("once", False)
    assert item.written["spark-properties"] == {"p": "${PW}", "q": "$${x}"}
    assert (item.written["trigger"], item.written["metadata-columns"]) == ("${T}", "${M}")


def test_a_value_of_a_variable_is_a_text_where_a_text_is_expected() -> None:
    text = SQL + "description: ${D}\nspark-properties: {a: '${D}'}\n"
    for value in ("true", "5", "null", ""):
        manifest = load(text, D=value).manifests[0].manifest
        assert (manifest.description, manifest.spark_properties) == (value, {"a": value})


def test_a_variable_must_be_a_boolean_where_one_is_expected() -> None:
    problem = single_problem(SQL + "metadata-columns: ${M}", M="maybe")

    assert (problem.line, problem.column, problem.code) == (4, 19, "invalid_value")


@pytest.mark.parametrize(
    ("sql", "is_noted"),
    [
        (">-\n  SELECT a -- x\n  FROM t", True),
        ("SELECT a -- x\n  FROM t", True),
        ('"SELECT a -- x\n  FROM t"', True),
        ("|\n  SELECT a -- x\n  FROM t", False),
        (">-\n  SELECT '-- x'\n  FROM t /* -- */", False),
        ("SELECT a -- x", False),
    ],
)
def test_lines_that_disappear_in_a_comment_are_noted(sql: str, is_noted: bool) -> None:
    loaded = load(SQL.replace("SELECT 1", sql))

    assert loaded.problems == ()
    assert [note.line for note in loaded.notes] == ([3 + sql.startswith(">")] if is_noted else [])


def test_variables_are_replaced_in_sql_and_code_and_cannot_add_keys() -> None:
    value = "1\ntrigger: once"
    manifest = load(SQL.replace("SELECT 1", "SELECT ${X}"), X=value).manifests[0].manifest

    assert (manifest.sql, manifest.trigger) == (f"SELECT {value}", None)


def test_a_missing_variable_has_its_place_inside_the_value() -> None:
    problem = single_problem(SQL.replace("SELECT 1", "|\n  SELECT 'a',\n    '${NAME}'"))

    assert (problem.line, problem.column, problem.code) == (5, 6, "missing_variable")
    assert "NAME" in problem.message
    assert "$${NAME}" in (problem.hint or "")


def test_places_after_a_variable_are_those_of_the_text_as_written() -> None:
    text = SQL.replace("SELECT 1", "SELECT '${A}'; SELECT 2")
    problem = single_problem(text, A="a\nlonger\ntext")

    assert (problem.line, problem.column) == (3, 6 + len("SELECT '${A}'; "))


def test_a_problem_of_the_template_is_reported_once_at_its_place() -> None:
    template = "# x\ntrigger: soon\nfoo: 1\nspark-properties:\n  a: ${B}\n"
    loaded = load(SQL, SQL.replace("j", "k"), template=template)

    assert [(p.path, p.line, p.column, p.code) for p in loaded.problems] == [
        ("template.yaml", 2, 10, "invalid_value"),
        ("template.yaml", 3, 1, "unknown_key"),
        ("template.yaml", 5, 6, "missing_variable"),
    ]


def test_the_name_of_the_job_takes_the_place_of_its_placeholder_in_a_template() -> None:
    template = (
        "description: job {job_name} of ${TEAM}\nspark-properties:\n"
        "  spark.x: '{job_name}/{job_name}'\n  spark.y: '{other}'\n"
    )
    loaded = load(SQL, SQL.replace("name: j", "name: k"), template=template, TEAM="{job_name}")

    assert loaded.problems == ()
    first, second = loaded.manifests
    assert first.manifest.description == "job j of {job_name}"
    assert second.manifest.spark_properties == {"spark.x": "k/k", "spark.y": "{other}"}
    assert first.written["description"] == "job j of ${TEAM}"


@pytest.mark.parametrize("key", ["name", "sql", "code", "script", "meta"])
def test_a_template_cannot_have_the_keys_of_one_job(key: str) -> None:
    loaded = load(SQL, template=f"trigger: once\n{key}: x\n")

    places = [(p.path, p.line, p.code) for p in loaded.problems]
    assert ("template.yaml", 2, "key_not_allowed") in places


def test_a_template_has_one_document_and_may_be_empty() -> None:
    assert load(SQL, template="# nothing\n").problems == ()
    loaded = load(SQL, template="trigger: once\n---\ntrigger: once\n")
    assert [(p.line, p.code) for p in loaded.problems] == [(3, "invalid_template")]


def test_defaults_that_a_script_has_in_its_statements_do_not_apply_to_it() -> None:
    template = "trigger: once\noutput-mode: append\ntarget-table: t\nsession: dedicated\n"
    loaded = load(SCRIPT, template=template)

    assert loaded.problems == ()
    manifest = loaded.manifests[0].manifest
    assert (manifest.trigger, manifest.session) == (None, "dedicated")


def test_a_manifest_of_another_job_with_problems_keeps_its_name() -> None:
    loaded = load(SQL + "trigger: soon\n", SQL)

    assert {p.code for p in loaded.problems} == {"invalid_value", "duplicate_job"}


def test_a_thousand_manifests_are_read_in_a_few_seconds() -> None:
    text = SQL + "description: x\nspark-properties: {a: 1, b: 2}\ntrigger: 5 seconds\n"
    before = time.thread_time()
    loaded = load(*(text.replace("name: j", f"name: j{n}") for n in range(1000)))

    assert len(loaded.manifests) == 1000
    assert time.thread_time() - before < 10  # about 1.2 s on a free machine


class TestLimits:
    """The limits of all files of a deployment together."""

    def test_reading_stops_after_a_thousand_problems(self) -> None:
        problems = load(*["name: 1\n"] * 700).problems
        assert {p.path for p in problems if p.code == "too_many_problems"} == {problems[-1].path}
        assert MAX_PROBLEMS < len(problems) < MAX_PROBLEMS + 10

    def test_empty_documents_count_in_all_files_together(self) -> None:
        problems = load(*["---\n" * 900] * 4).problems
        assert [(p.path, p.code) for p in problems] == [
            ("1.yaml", "missing_manifest"),
            ("2.yaml", "missing_manifest"),
            ("3.yaml", "missing_manifest"),
            ("3.yaml", "too_many_documents"),
        ]

    @pytest.mark.parametrize("repeats", [1, 1000], ids=["one reference", "many references"])
    @pytest.mark.parametrize("values", [1, 1000], ids=["in one value", "in many values"])
    def test_variables_do_not_multiply_without_a_limit(self, repeats: int, values: int) -> None:
        big = "x" * (MAX_EXPANDED // (repeats * values) + 1)
        properties = "".join(f"  spark.k{n}: {'${BIG}' * repeats}\n" for n in range(values))
        manifest = f"{SQL}spark-properties:\n{properties}"

        assert "file_too_large" in [p.code for p in load(manifest, BIG=big).problems]

    def test_a_template_does_not_multiply_without_a_limit(self) -> None:
        template = f"spark-properties: {{spark.k: '{'x' * 100_000}'}}\n"
        manifests = [SQL.replace("name: j", f"name: j{n}") for n in range(400)]

        loaded = load(*manifests, template=template)
        assert [problem.code for problem in loaded.problems] == ["file_too_large"]
        assert len(loaded.manifests) < 400
