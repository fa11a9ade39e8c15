"""Iceberg tables: table properties and concurrent writers."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import ROWS, CtasRun, checksum, expected_checksum, fetch_rows
from tests.support.journal import JournalLink

from headrace.errors import TableAlreadyExists
from headrace.model.lifecycle import TransactionState

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]


def table_properties(namespace: LakeNamespace) -> dict[str, str]:
    return dict(fetch_rows(namespace.spark, f"SHOW TBLPROPERTIES {namespace.table}"))


@for_lakes("iceberg-base")
def test_a_published_table_has_the_properties_that_the_user_set(
    namespace: LakeNamespace, link: JournalLink, tmp_path: Path
) -> None:
    CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    assert not {key for key in table_properties(namespace) if key.startswith("write.data")}
    data_path = str(tmp_path / "data")
    clause = f"TBLPROPERTIES ('write.data.path' = '{data_path}', 'a' = 'b') AS SELECT"
    replace = namespace.ctas(ROWS, "CREATE OR REPLACE TABLE")
    CtasRun(namespace.spark, replace.replace("AS SELECT", clause, 1), JournalLink())
    properties = table_properties(namespace)
    assert (properties["write.data.path"], properties["a"]) == (data_path, "b")
    assert properties["headrace.txn"].startswith("tx_")
    # A replacement keeps the properties that it does not set.
    CtasRun(namespace.spark, replace, JournalLink())
    assert table_properties(namespace)["write.data.path"] == data_path
    assert checksum(namespace.spark, namespace.table) == expected_checksum(namespace.spark)


@for_lakes("iceberg-files", "iceberg-base")
def test_the_catalog_lets_one_of_two_writers_create_the_table(namespace: LakeNamespace) -> None:
    """Both writers begin before either of them has created the table."""
    barrier = threading.Barrier(2)
    outcomes: list[object] = []

    def write() -> None:
        link = JournalLink()

        def wait_for_other_writer(state: TransactionState) -> None:
            if state is TransactionState.BEGUN:
                barrier.wait(120)

        link.before_step = wait_for_other_writer
        try:
            CtasRun(namespace.spark, namespace.ctas(ROWS), link)
            outcomes.append("created")
        except TableAlreadyExists:
            outcomes.append("refused")
        except Exception as error:  # noqa: BLE001 - the assertion below shows the error
            outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["created", "refused"]
    assert namespace.is_complete()
