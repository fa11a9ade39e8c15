"""The next driver completes or removes the write of a lost one: all rows are there, or none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ctas import Crash, CtasRun, crash_before, journal_entry, orphan_transaction
from tests.support.journal import JournalLink
from tests.support.staged_writes import (
    ADDED,
    APPEND,
    OLD,
    OVERWRITE,
    create,
    leftovers,
    location,
    rows,
)

from headrace.driver.ctas.recovery import recover
from headrace.driver.spark_version.written_table import StagedFiles, WrittenTable
from headrace.errors import CatalogError
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

BEGUN, COMMITTING = TransactionState.BEGUN, TransactionState.COMMITTING
COMMITTED, ABORTED = TransactionState.COMMITTED, TransactionState.ABORTED


@pytest.mark.parametrize("state", [BEGUN, COMMITTING])
@pytest.mark.parametrize("text", [APPEND, OVERWRITE])
def test_the_next_attempt_removes_what_was_staged_and_writes_once(
    spark: SparkSession, link: JournalLink, text: str, state: TransactionState
) -> None:
    create(spark)
    crash_before(link, state)
    with pytest.raises(Crash):
        CtasRun(spark, text, link)
    assert rows(spark) == OLD
    earlier = journal_entry(link)
    second = JournalLink()
    second.staged, second.transaction, second.steps = link.staged, link.transaction, link.steps
    CtasRun(spark, text, second, earlier=earlier)
    assert rows(spark) == (ADDED if text == OVERWRITE else sorted(OLD + ADDED))
    assert leftovers(spark) == []


def crash_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, after: bool) -> None:
    """Make the next call of a method crash the driver, before or after its work."""
    original = getattr(owner, name)

    def call(self: Any, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(owner, name, original)
        if after:
            original(self, *arguments, **options)
        raise Crash

    monkeypatch.setattr(owner, name, call)


_APPENDING = [(StagedFiles, "move"), (WrittenTable, "add_partitions"), (WrittenTable, "refresh")]
_OVERWRITING = [*_APPENDING, (WrittenTable, "drop_partitions"), (StagedFiles, "remove")]
_STEPS = [
    *((APPEND, ADDED + OLD, *step) for step in _APPENDING),
    *((OVERWRITE, ADDED, *step) for step in _OVERWRITING),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("text", "expected", "owner", "name"), _STEPS)
def test_a_commit_that_was_interrupted_is_completed(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    expected: list[tuple[Any, ...]],
    owner: type,
    name: str,
    after: bool,
) -> None:
    create(spark, "USING parquet PARTITIONED BY (k)")
    crash_once(monkeypatch, owner, name, after=after)
    with pytest.raises(Crash):
        CtasRun(spark, text, link)

    run = CtasRun(spark, text, link, earlier=journal_entry(link))

    assert run.plan.hook is not None
    assert run.plan.hook.rows_written == 30
    assert rows(spark) == sorted(expected)
    assert leftovers(spark) == []


@pytest.mark.parametrize(("text", "expected"), [(APPEND, ADDED + OLD), (OVERWRITE, ADDED)])
def test_the_next_driver_completes_the_commit_of_an_orphan(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    expected: list[tuple[Any, ...]],
) -> None:
    create(spark)
    crash_once(monkeypatch, StagedFiles, "move", after=True)
    with pytest.raises(Crash):
        CtasRun(spark, text, link)
    orphan_transaction(link)

    recover(spark, link.as_link())

    assert link.steps[-1] is COMMITTED
    assert rows(spark) == sorted(expected)
    assert leftovers(spark) == []


def test_the_next_driver_removes_what_an_orphan_has_staged(
    spark: SparkSession, link: JournalLink
) -> None:
    create(spark)
    crash_before(link, COMMITTING)
    with pytest.raises(Crash):
        CtasRun(spark, APPEND, link)
    orphan_transaction(link)

    recover(spark, link.as_link())

    assert link.steps[-1] is ABORTED
    assert (rows(spark), leftovers(spark)) == (OLD, [])


def test_a_manifest_cannot_name_files_of_other_tables(
    spark: SparkSession, link: JournalLink, tmp_path: Path
) -> None:
    create(spark)
    victim = tmp_path / "victim"
    victim.write_text("rows")

    def forge(step: TransactionState) -> None:
        if step is COMMITTING:
            manifest = next(location(spark).rglob("_manifest.json"))
            text = json.loads(manifest.read_text())
            text["old_files"] = ["../" * 20 + str(victim).lstrip("/")]
            manifest.write_text(json.dumps(text))
            link.steps.append(COMMITTING)
            raise Crash

    link.before_step = forge
    with pytest.raises(Crash):
        CtasRun(spark, OVERWRITE, link)
    link.before_step = lambda _state: None
    with pytest.raises(CatalogError, match="manifest"):
        CtasRun(spark, OVERWRITE, link, earlier=journal_entry(link))
    assert victim.read_text() == "rows"
    assert rows(spark) == OLD


def test_a_commit_without_its_staged_rows_is_no_success(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark)
    crash_once(monkeypatch, StagedFiles, "move", after=False)
    with pytest.raises(Crash):
        CtasRun(spark, APPEND, link)
    [staging] = location(spark).glob(".headrace_staged_*")
    shutil.rmtree(staging)

    with pytest.raises(CatalogError, match="staged rows"):
        CtasRun(spark, APPEND, link, earlier=journal_entry(link))

    assert link.steps[-1] is ABORTED
    assert rows(spark) == OLD
