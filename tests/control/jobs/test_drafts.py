"""Errors in the files of a deployment, which a node finds without a driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.in_process_node import make_settings

from headrace.control.jobs.drafts import JobDraft, PlanRequest, read_drafts
from headrace.deploy.problems import SourceText
from headrace.errors import InvalidManifests
from headrace.model.run import BatchSpec

STREAM = "CREATE STREAM ticks FROM rate;\n"
MANIFEST = "name: {name}\ntarget-table: out\nsql: SELECT value FROM ticks\n{more}"


class Files:
    """The files of a deployment."""

    def __init__(self, home: Path) -> None:
        self._settings = make_settings(home)

    def read(
        self, *manifests: str, definitions: str = STREAM, template: str = ""
    ) -> list[JobDraft]:
        files = [SourceText(f"{n}.yaml", text) for n, text in enumerate(manifests, 1)]
        request = PlanRequest(
            manifests=files,
            template=SourceText("template.yaml", template),
            definitions=[SourceText("tables.sql", definitions)],
            variables={"RATE": "5"},
        )
        return read_drafts(request, self._settings)[0]

    def find_errors(
        self, *manifests: str, definitions: str = STREAM, template: str = ""
    ) -> list[tuple[str, int, int | None, str]]:
        """Return path, line, column and code of each error."""
        with pytest.raises(InvalidManifests) as caught:
            self.read(*manifests, definitions=definitions, template=template)
        found = [(e["path"], e["line"], e["column"], e["code"]) for e in caught.value.problems]
        assert caught.value.message.startswith(f"{len(found)} error")
        return found


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def make(name: str = "job", more: str = "") -> str:
    return MANIFEST.format(name=name, more=more)


def test_an_error_of_a_definition_is_reported_once_at_its_place(files: Files) -> None:
    definitions = f"-- All streams.\n{STREAM}\n-- Spelt wrong.\nCREATE STREAM s\n  FROM parquet;\n"
    errors = files.find_errors(make("a"), make("b"), definitions=definitions)

    assert errors == [("tables.sql", 6, 8, "invalid_statement")]


def test_the_place_of_an_error_is_that_before_variables_are_replaced(files: Files) -> None:
    options = "'rowsPerSecond' = '${RATE}', 'ramp' = '1'"
    definitions = f"CREATE STREAM ticks FROM rate OPTIONS ({options});\n"
    [(_path, line, column, _code)] = files.find_errors(make(), definitions=definitions)

    assert column is not None
    assert definitions.splitlines()[line - 1][column - 1 :].startswith("'ramp'")


def test_errors_of_all_files_are_reported_at_once(files: Files) -> None:
    wrong_conf = make("conf", "spark-properties: {spark.master: yarn}\n")
    errors = files.find_errors(
        make("one", "colour: red\n"),
        make("ONE"),
        "name: both\ntarget-table: out\nsql: SELECT 1\ncode: x = 1\n",
        wrong_conf,
        make("twice", "trigger: soon\n"),
        definitions="CREATE SINK k TO table;\n",
    )

    assert [(path, line) for path, line, _column, _code in errors] == [
        ("1.yaml", 4),
        ("2.yaml", 1),
        ("3.yaml", 4),
        ("5.yaml", 4),
        ("tables.sql", 1),
        ("4.yaml", 4),
    ]
    assert [code for _path, _line, _column, code in errors][-1] == "setting_denied"


@pytest.mark.parametrize(
    ("line", "column", "code"),
    [
        ("  spark.master: yarn", 17, "setting_denied"),
        ("  spark.headrace.token: x", 25, "invalid_value"),
        ("  spark.headrace.retry.enabled: perhaps", 33, "invalid_value"),
        ("output-mode: complete", 14, "invalid_statement"),
        ("trigger: continuous 1 second", 10, "invalid_statement"),
    ],
)
def test_a_wrong_value_of_the_template_is_reported_once_at_its_place(
    files: Files, line: str, column: int, code: str
) -> None:
    template = f"# Defaults.\nspark-properties:\n  spark.sql.shuffle.partitions: 4\n{line}\n"
    errors = files.find_errors(
        make("a"),
        make("b", "spark-properties: {spark.sql.shuffle.partitions: 8}\n"),
        definitions=f"{STREAM}CREATE SINK out TO parquet;\n",
        template=template,
    )

    assert errors == [("template.yaml", 4, column, code)]


def test_jobs_of_a_session_cannot_differ_in_properties_of_the_application(files: Files) -> None:
    small = make("small", "spark-properties: {spark.executor.memory: 1g}\n")
    big = make("big", "spark-properties: {spark.executor.memory: 8g}\n")
    apart = make("apart", "session: dedicated\nspark-properties: {spark.executor.memory: 4g}\n")

    assert [error[3] for error in files.find_errors(small, big, apart)] == ["session_conflict"]


def test_each_line_of_a_query_has_its_place_in_the_file(files: Files) -> None:
    text = "name: job\ntarget-table: out\nsql: >-\n  SELECT value\n  FROM ticks\n"
    [draft] = files.read(text)

    assert [(each.offset, each.line, each.column) for each in draft.query_places] == [
        (0, 4, 3),
        (13, 5, 3),
    ]


def test_the_files_of_a_deployment_have_a_limit_together(files: Files) -> None:
    manifests = [make(f"j{n}", more=f"# {'x' * 1_000_000}\n") for n in range(5)]
    assert files.find_errors(*manifests) == [("5.yaml", 1, None, "file_too_large")]


def test_a_reference_to_a_secret_stays_in_a_job_and_is_refused_where_no_driver_resolves_it(
    files: Files,
) -> None:
    option = "'kafka.sasl.jaas.config' = '${secret:kafka}'"
    definitions = (
        "CREATE STREAM ticks FROM kafka OPTIONS"
        f" ('kafka.bootstrap.servers' = 'h:1', 'subscribe' = 't', {option});\n"
    )
    conf = "spark-properties: {'spark.sql.catalog.pg.password': '${secret:pg}'}\n"
    [draft] = files.read(make(more=conf), definitions=definitions)

    assert option in draft.spec.queries[0].spec.definitions[0]
    assert draft.spec.session.spec.conf == {"spark.sql.catalog.pg.password": "${secret:pg}"}
    wrong = [
        make("a", "spark-properties: {'spark.x': '${secret:}'}\n"),
        "name: b\ntarget-table: out\nsql: SELECT '${secret:pg}'\n",
        "name: c\ntarget-table: out\ncode: execution_output = '${secret:pg}'\n",
    ]
    errors = files.find_errors(*wrong)
    assert [(path, line, code) for path, line, _column, code in errors] == [
        ("1.yaml", 4, "invalid_secret_reference"),
        ("2.yaml", 3, "secret_misplaced"),
        ("3.yaml", 3, "secret_misplaced"),
    ]


BATCH = "name: {name}\ntarget-table: db.out\nschedule: manual\n"


def read_batch(files: Files, text: str, *, definitions: str = STREAM) -> BatchSpec:
    [draft] = files.read(BATCH.format(name="load") + text, definitions=definitions)
    assert draft.spec.batch is not None
    return draft.spec.batch


def test_a_run_creates_its_target_table_unless_a_definition_does(files: Files) -> None:
    sql = "sql: SELECT 1 AS a\n"
    assert [each.creates_target for each in read_batch(files, sql).statements] == [True, False]
    definition = "CREATE TABLE IF NOT EXISTS db.out (a INT);\n"
    batch = read_batch(files, sql, definitions=definition)
    assert [text.partition(" (")[0] for text in batch.definitions] == [
        "CREATE TABLE IF NOT EXISTS db.out"
    ]
    [written] = batch.statements
    assert written.text.startswith("INSERT INTO")


def test_the_code_of_a_batch_job_goes_with_each_statement_that_reads_its_rows(files: Files) -> None:
    batch = read_batch(files, "code: execution_output = spark.range(1)\nmetadata-columns: false\n")
    assert [each.code for each in batch.statements] == ["execution_output = spark.range(1)"] * 2
    assert batch.statements[1].text.endswith("SELECT * FROM headrace_rows")
    wrong = BATCH.format(name="load") + "code: execution_output = '${secret:pg}'\n"
    [(_path, _line, _column, code)] = files.find_errors(wrong)
    assert code == "secret_misplaced"


@pytest.mark.parametrize(
    ("more", "in_pool", "conf"),
    [
        ("spark-properties: {spark.sql.shuffle.partitions: 4}\n", True, ["shuffle.partitions"]),
        ("session: etl\n", False, []),
        ("spark-properties: {spark.executor.memory: 2g}\n", False, []),
    ],
    ids=["query", "session", "application"],
)
def test_a_batch_job_has_a_session_of_its_own_only_if_it_asks_for_one(
    files: Files, more: str, in_pool: bool, conf: list[str]
) -> None:
    batch = read_batch(files, f"sql: SELECT 1 AS a\n{more}")
    assert (batch.in_pool, [key.removeprefix("spark.sql.") for key in batch.conf]) == (
        in_pool,
        conf,
    )


def test_jobs_of_the_pool_conflict_with_no_session(files: Files) -> None:
    sql = "sql: SELECT 1 AS a\n"
    memory = "spark-properties: {spark.executor.memory: 2g}\n"
    pool, own = (BATCH.format(name=name) + sql for name in ("pool", "own"))
    assert len(files.read(pool, own + memory)) == 2
    session = "session: jobs-default\n"
    errors = files.find_errors(pool + session, own + memory)
    assert [code for *_place, code in errors] == ["session_conflict"]
