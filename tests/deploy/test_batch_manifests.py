"""Manifests of batch jobs: what is accepted, and the statement that writes their rows."""

from __future__ import annotations

import json

import pytest

from headrace.deploy.batch_writes import create_statement, parse_write, write_statement
from headrace.deploy.load import load_manifests
from headrace.deploy.problems import SourceText
from headrace.deploy.script_statements import list_refreshed_views
from headrace.errors import InvalidStatement
from headrace.model.run import BatchTarget, CatchUp, Overlap, ResumeAt

MERGE = (
    "MERGE INTO `db`.`t` AS target USING (\nSELECT 1 AS a\n) AS source"
    " ON target.`a` <=> source.`a` AND target.`b c` <=> source.`b c`\n"
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
MANY = [f"{{name: e{number}, condition: a > 0}}" for number in range(51)]
BATCH = "name: daily\ntarget-table: db.t\nsql: SELECT 1 AS a\n"


def _problems(text: str) -> list[tuple[int, str, str]]:
    loaded = load_manifests([SourceText("daily.yaml", text)])
    return [(each.line, each.code, each.message) for each in loaded.problems]


def test_a_batch_manifest_has_a_schedule_and_rules() -> None:
    text = (
        f"{BATCH}schedule: {{cron: 30 2 * * *, timezone: Europe/Berlin}}\n"
        "overlap: queue\ncatch-up: all\ndelay: 10min\nlookback: 31\n"
        "time-limit: 2h\nresume-at: start\n"
        "write: merge on (a)\nretries: {max-attempts: 5, min-backoff: 1s}\n"
    )
    loaded = load_manifests([SourceText("daily.yaml", text)])
    assert loaded.problems == ()
    manifest = loaded.manifests[0].manifest
    assert manifest.schedule is not None
    assert (manifest.schedule.cron, manifest.schedule.timezone) == ("30 2 * * *", "Europe/Berlin")
    assert (manifest.overlap, manifest.catch_up) == (Overlap.QUEUE, CatchUp.ALL)
    assert manifest.resume_at is ResumeAt.START
    assert manifest.retries is not None
    assert manifest.retries.max_attempts == 5
    assert (
        type(manifest).model_validate(manifest.model_dump(mode="json", by_alias=True)) == manifest
    )


def test_a_manual_schedule_survives_the_store() -> None:
    loaded = load_manifests([SourceText("daily.yaml", f"{BATCH}schedule: manual\n")])
    manifest = loaded.manifests[0].manifest
    assert manifest.schedule is not None
    assert manifest.schedule.is_manual
    stored = manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert stored["schedule"] == "manual"
    assert type(manifest).model_validate(stored) == manifest


@pytest.mark.parametrize(
    ("lines", "line", "code", "message"),
    [
        ("schedule: {cron: 0 0 30 2 *}", 4, "invalid_schedule", "bad day-of-month"),
        ("schedule: {cron: 0 0 * * *, timezone: X}", 4, "invalid_schedule", "time zone 'X'"),
        ("schedule: sometimes", 4, "invalid_schedule", "'sometimes'"),
        ("schedule: {}", 4, "invalid_value", "no condition"),
        ("schedule: {every: 1h, cron: 0 0 * * *}", 4, "invalid_value", "`cron` and `every`"),
        ("schedule: {max-lag: 59s}", 4, "invalid_value", "at least 1min"),
        ("schedule: {max-lag: 1h, every: 1h}", 4, "invalid_value", "`every` and `max-lag`"),
        ("schedule: {every: 1h, of: [t]}", 4, "invalid_value", "`of` only goes with `max-lag`"),
        ("schedule: {max-lag: 1h, of: []}", 4, "invalid_value", "at least 1"),
        ("schedule: {max-lag: 1h, of: [t]}\ndelay: 1s", 5, "conflicting_keys", "`delay` does not"),
        ("schedule: {max-lag: 1h}", 3, "invalid_schedule", "query reads no table"),
        ("overlap: skip", 4, "conflicting_keys", "only goes with `schedule`"),
        ("schedule: manual\ntrigger: 5 seconds", 5, "conflicting_keys", "cannot have `trigger`"),
        ("schedule: manual\nwrite: replace", 5, "invalid_value", "`append`"),
        ("schedule: manual\nwrite: overwrite-partitions", 5, "missing_key", "replace all rows"),
        ("schedule: manual\npartition-by: []", 5, "invalid_value", "at least 1"),
        ("partition-by: [a]", 4, "conflicting_keys", "only goes with `schedule`"),
        ("schedule: {every: 1h}\nlookback: 2", 5, "conflicting_keys", "With `write: append`"),
        ("schedule: {after: [a]}\nlookback: 2", 5, "conflicting_keys", "times of a clock"),
        ("schedule: manual\nlookback: 2", 5, "conflicting_keys", "times of a clock"),
        ("schedule: {every: 1h}\nlookback: 0", 5, "invalid_value", "greater than or equal to 1"),
        ("schedule: {every: 1h}\nlookback: 32", 5, "invalid_value", "less than or equal to 31"),
        ("schedule: {every: 1h}\nlookback: 1.5", 5, "invalid_value", "an integer"),
        ("lookback: 2", 4, "conflicting_keys", "only goes with `schedule`"),
        ("schedule: manual\noverlap: maybe", 5, "invalid_value", "not allowed"),
        ("schedule: manual\nretries: {attempts: 3}", 5, "invalid_value", "attempts"),
        (
            "trigger: continuous 1 second\nexpect: [{name: a, condition: a > 0}]",
            5,
            "conflicting_keys",
            "has no batches",
        ),
        ("schedule: manual\nexpect: a > 0", 5, "invalid_value", "list"),
        (f"schedule: manual\nexpect: [{', '.join(MANY)}]", 5, "invalid_value", "at most 50"),
    ],
)
def test_a_wrong_key_of_a_batch_job_is_an_error_at_its_place(
    lines: str, line: int, code: str, message: str
) -> None:
    [(found_line, found_code, text), *_others] = _problems(f"{BATCH}{lines}\n")
    assert (found_line, found_code) == (line, code), text
    assert message in text


@pytest.mark.parametrize(
    ("conditions", "column", "message"),
    [
        ("all: []", 17, "at least 1 item"),
        ("any: [{after: [a]}, manual]", 32, "`manual` has no conditions"),
        ("all: [{every: 1h}, {cron: 0 6 * * *}]", 31, "has two clocks"),
        ("any: [{every: 1h}, {all: [{after: [a]}, {every: 2h}]}]", 52, "has two clocks"),
        ("any: [{after: [a, b]}, {after: [B]}]", 35, "Two conditions name b"),
        ("any: [{on-change: [t]}, {on-change: [default.T]}]", 36, "Two conditions name spark_"),
        ("all: [{every: 1h}, {on-change: [a b]}]", 31, "not the name of a table"),
        ("all: [{any: [{all: [{any: [{after: [a]}]}]}]}]", 32, "at most 3 levels deep"),
        ("all: [{every: 1h}, {settle: 1s, after: [a]}]", 31, "`settle` only goes with"),
    ],
)
def test_a_wrong_combination_of_conditions_is_an_error_at_its_place(
    conditions: str, column: int, message: str
) -> None:
    text = f"{BATCH}schedule: {{{conditions}}}\n"
    loaded = load_manifests([SourceText("daily.yaml", text)])
    [problem] = loaded.problems
    assert message in problem.message
    assert (problem.line, problem.column) == (4, column)


def test_a_schedule_has_a_bounded_number_of_combinations() -> None:
    sides = [", ".join(f"{{after: [{side}{number}]}}" for number in range(11)) for side in "ab"]
    text = f"{BATCH}schedule: {{all: [{{any: [{sides[0]}]}}, {{any: [{sides[1]}]}}]}}\n"
    [(line, code, message)] = _problems(text)
    assert (line, code) == (4, "invalid_schedule")
    assert "121 combinations of conditions, and at most 100" in message


@pytest.mark.parametrize("lists", ["on-change: [t]", "all: [{every: 1h}, {on-change: [t]}]"])
def test_a_run_for_changed_tables_cannot_be_skipped(lists: str) -> None:
    text = f"{BATCH}schedule: {{{lists}}}\noverlap: skip\n"
    [(line, code, message)] = _problems(text)
    assert (line, code) == (5, "conflicting_keys")
    assert "no run would read what changes during a run" in message


@pytest.mark.parametrize(
    ("lines", "place", "code", "message"),
    [
        ("  - {name: A, condition: a > 0}", (6, 3), "duplicate_expectation", "the name A"),
        ("  - {name: b}", (7, 5), "invalid_value", "`expect.1.condition` is missing"),
        ("  - {name: a b, condition: a > 0}", (7, 12), "invalid_value", "`expect.1.name`"),
        ("  - {name: b, condition: ''}", (7, 26), "invalid_condition", "is empty"),
        ("  - {name: b, condition: '-- a'}", (7, 27), "invalid_condition", "is empty"),
        ("  - {name: b, condition: '(a > 0'}", (7, 27), "invalid_condition", "`(` is not closed"),
        ("  - {name: b, condition: a > 0)}", (7, 31), "invalid_condition", "`)` closes nothing"),
        ('  - {name: b, condition: "a[1)"}', (7, 30), "invalid_condition", "`)` closes nothing"),
        ('  - {name: b, condition: a = "x}', (7, 30), "invalid_condition", "not closed"),
        ("  - {name: b, condition: a; b}", (7, 27), "invalid_condition", "a `;`"),
        ("  - {name: b, condition: a IN (SELECT 1)}", (7, 32), "invalid_condition", "subquery"),
        (
            "  - {name: b, condition: a > 0, on-violation: ignore}",
            (7, 47),
            "invalid_value",
            "not allowed",
        ),
        ("  - {name: b, condition: a > 0, on: fail}", (7, 37), "invalid_value", "unknown"),
    ],
)
def test_a_wrong_expectation_is_an_error_at_its_place(
    lines: str, place: tuple[int, int], code: str, message: str
) -> None:
    text = f"{BATCH}schedule: manual\nexpect:\n  - {{name: a, condition: a > 0}}\n{lines}\n"
    loaded = load_manifests([SourceText("daily.yaml", text)])
    [problem, *_others] = loaded.problems
    assert (problem.line, problem.column, problem.code) == (*place, code), problem.message
    assert message in problem.message


def test_a_condition_of_several_lines_is_marked_where_it_is_wrong() -> None:
    text = f"{BATCH}schedule: manual\nexpect:\n- name: a\n  condition: |\n    a > 0\n      AND (b\n"
    [(line, code, message)] = _problems(text)
    assert (line, code) == (9, "invalid_condition"), message


def test_a_script_has_no_expectations() -> None:
    text = "name: a\nschedule: manual\nscript: INSERT INTO t SELECT 1\nexpect: []\n"
    assert [(line, code) for line, code, _message in _problems(text)] == [(4, "conflicting_keys")]


def test_a_script_of_a_batch_job_has_statements_of_sql_alone() -> None:
    text = (
        "name: daily\nschedule: manual\nscript: |\n  INSERT INTO a SELECT 1;\n"
        "  SAVE STREAM s TO console;\n"
    )
    found = _problems(text)
    assert [(line, code) for line, code, _message in found] == [(5, "statement_not_allowed")]
    assert _problems("name: daily\nschedule: manual\nscript: '-- nothing'\n")[0][1] == (
        "empty_statement"
    )


@pytest.mark.parametrize("key", ["write: append", "partition-by: [day]", "lookback: 2"])
def test_a_script_says_itself_how_it_writes(key: str) -> None:
    text = f"name: daily\nschedule: {{every: 1h}}\n{key}\nscript: INSERT INTO t SELECT 1\n"
    [(line, code, message)] = _problems(text)
    assert (line, code) == (3, "conflicting_keys")
    assert "`script` cannot have" in message


@pytest.mark.parametrize(
    ("write", "statement"),
    [
        ("append", "INSERT INTO `db`.`t` BY NAME\nSELECT 1 AS a"),
        (
            "Overwrite-Partitions",
            "INSERT OVERWRITE `db`.`t` PARTITION (`day`, `a b`) BY NAME\nSELECT 1 AS a",
        ),
    ],
)
def test_the_rows_of_a_query_are_written_by_name(write: str, statement: str) -> None:
    mode, keys = parse_write(write)
    target = BatchTarget(name=("db", "t"), write=mode, merge_keys=keys, partition_by=("day", "a b"))
    assert write_statement(target, "SELECT 1 AS a;") == statement


def test_the_target_table_is_created_without_rows() -> None:
    created = "`db`.`t` PARTITIONED BY (`day`) AS\nSELECT * FROM (\nSELECT 1 AS a\n) LIMIT 0"
    target = BatchTarget(name=("db", "t"), partition_by=("day",))
    assert create_statement(target, "SELECT 1 AS a;") == f"CREATE TABLE IF NOT EXISTS {created}"


@pytest.mark.parametrize("write", ["", "merge", "merge on", "merge on ()", "merge on (a b)", "x"])
def test_another_way_to_write_is_refused(write: str) -> None:
    with pytest.raises(InvalidStatement):
        parse_write(write)


@pytest.mark.parametrize(
    "query",
    [
        "script: INSERT INTO t SELECT * FROM u",
        "script: REFRESH MATERIALIZED VIEW v; INSERT INTO t SELECT 1",
        "script: DROP MATERIALIZED VIEW v",
        "target-table: t\ncode: execution_output = 1",
    ],
)
def test_a_lag_of_a_script_or_code_needs_the_names_of_tables(query: str) -> None:
    key = query.rpartition("\n")[2].partition(":")[0]
    text = f"name: daily\nschedule: {{max-lag: 1h}}\n{query}\n"
    [problem] = load_manifests([SourceText("daily.yaml", text)]).problems
    assert problem.column == len(key) + 3
    assert f"`max-lag` needs the tables that the {key} reads" in problem.message
    assert "of: [db.table]" in (problem.hint or "")
    named = text.replace("1h}", "1h, of: [u]}")
    assert load_manifests([SourceText("daily.yaml", named)]).problems == ()


def test_a_lag_of_a_script_that_refreshes_views_needs_no_names_of_tables() -> None:
    script = "REFRESH MATERIALIZED VIEW v; -- and\n  REFRESH MATERIALIZED VIEW `a b`.w"
    manifest = {"name": "daily", "schedule": {"max-lag": "1h"}, "script": script}
    assert load_manifests([SourceText("daily.yaml", json.dumps(manifest))]).problems == ()
    assert list_refreshed_views(script) == [("v",), ("a b", "w")]
    assert list_refreshed_views("REFRESH MATERIALIZED VIEW") == []
