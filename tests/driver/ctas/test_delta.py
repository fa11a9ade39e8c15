"""Delta tables in the session catalog: locations and tables without a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import (
    ROWS,
    Crash,
    CtasRun,
    checksum,
    crash_before,
    expected_checksum,
    journal_entry,
)
from tests.support.journal import JournalLink

from headrace.model.lifecycle import TransactionState

pytestmark = [pytest.mark.spark, pytest.mark.catalogs, for_lakes("delta")]


def test_the_next_attempt_after_a_crash_leaves_no_staged_files_at_the_location(
    namespace: LakeNamespace, link: JournalLink, tmp_path: Path
) -> None:
    location = tmp_path / "location"
    text = namespace.ctas(ROWS).replace(" AS SELECT", f" LOCATION '{location}' AS SELECT", 1)
    crash_before(link, TransactionState.COMMITTING)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, text, link)
    next_link = JournalLink()
    next_link.steps = link.steps
    CtasRun(namespace.spark, text, next_link, earlier=journal_entry(link))
    assert checksum(namespace.spark, namespace.table) == expected_checksum(namespace.spark)
    assert not [file for file in location.rglob("*") if "headrace" in file.name]


def test_a_table_that_is_named_by_its_path_runs_as_plain_spark(
    namespace: LakeNamespace, link: JournalLink, tmp_path: Path
) -> None:
    text = f"CREATE TABLE delta.`{tmp_path / 'p'}` USING delta AS {ROWS}"
    run = CtasRun(namespace.spark, text, link)
    assert (run.plan.atomic, link.steps) == (False, [])
