"""Manifests of batch jobs: what is accepted, and the statement that writes their rows."""

from __future__ import annotations

import pytest

from headrace.deploy.batch_writes import create_statement, parse_write, write_statement
from headrace.deploy.load import load_manifests
from headrace.deploy.problems import SourceText
from headrace.errors import InvalidStatement
from headrace.model.run import BatchTarget, CatchUp, Overlap, ResumeAt

BATCH = "name: daily\ntarget-table: db.t\nsql: SELECT 1 AS a\n"


def _problems(text: str) -> list[tuple[int, str, str]]:
    loaded = load_manifests([SourceText("daily.yaml", text)])
    return [(each.line, each.code, each.message) for each in loaded.problems]


def test_a_batch_manifest_has_a_schedule_and_rules() -> None:
    text = (
        f"{BATCH}schedule: {{cron: 30 2 * * *, timezone: Europe/Berlin}}\n"
        "overlap: queue\ncatch-up: all\ndelay: 10min\ntime-limit: 2h\nresume-at: start\n"
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
        ("overlap: skip", 4, "conflicting_keys", "only goes with `schedule`"),
        ("schedule: manual\ntrigger: 5 seconds", 5, "conflicting_keys", "cannot have `trigger`"),
        ("schedule: manual\nwrite: replace", 5, "invalid_value", "`append`"),
        ("schedule: manual\nwrite: overwrite-partitions", 5, "missing_key", "replace all rows"),
        ("schedule: manual\npartition-by: []", 5, "invalid_value", "at least 1"),
        ("partition-by: [a]", 4, "conflicting_keys", "only goes with `schedule`"),
        ("schedule: manual\noverlap: maybe", 5, "invalid_value", "not allowed"),
        ("schedule: manual\nretries: {attempts: 3}", 5, "invalid_value", "attempts"),
    ],
)
def test_a_wrong_key_of_a_batch_job_is_an_error_at_its_place(
    lines: str, line: int, code: str, message: str
) -> None:
    [(found_line, found_code, text), *_others] = _problems(f"{BATCH}{lines}\n")
    assert (found_line, found_code) == (line, code), text
    assert message in text


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


@pytest.mark.parametrize("key", ["write: append", "partition-by: [day]"])
def test_a_script_says_itself_how_it_writes(key: str) -> None:
    text = f"name: daily\nschedule: manual\n{key}\nscript: INSERT INTO t SELECT 1\n"
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
