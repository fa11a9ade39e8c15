"""Statements on materialized views whose catalog, record or name is not what a driver expects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import Crash, crash_before, fetch_rows, journal_entry
from tests.support.view_link import ViewLink

from headrace.errors import CatalogError, InvalidMaterializedView
from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.materialized_view import IntentAction, SwitchedView

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]


@pytest.fixture
def name(namespace: LakeNamespace) -> Iterator[str]:
    """Return the name of a view to create."""
    yield f"{namespace.name}.v"
    namespace.spark.sql(f"DROP VIEW IF EXISTS {namespace.name}.v")


@for_lakes("parquet")
def test_a_session_with_another_metastore_does_not_refresh_a_view(
    namespace: LakeNamespace, link: ViewLink, name: str
) -> None:
    link.create(namespace.spark, f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS a")
    link.identity = "another metastore"
    with pytest.raises(InvalidMaterializedView, match="another one than the catalog that has"):
        link.refresh(namespace.spark)

    assert namespace.tables == ["__mv_v_1", "v"]


@for_lakes("parquet")
@pytest.mark.parametrize("forged", [None, "id", "path"])
def test_a_forged_record_does_not_switch_the_view_of_another_statement(
    namespace: LakeNamespace, link: ViewLink, name: str, forged: str | None
) -> None:
    from headrace.driver.ctas.catalogs import restore_table

    crash_before(link, TransactionState.COMMITTING)
    with pytest.raises(Crash):
        link.create(namespace.spark, f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS a")
    assert link.rows is not None
    path = [*link.rows.path[:-1], "other" if forged == "path" else "v"]
    view = SwitchedView(id=new_id("mv") if forged == "id" else link.view, path=path)
    entry = journal_entry(link)
    claimed = entry.model_copy(update={"view": None if forged is None else view})
    with pytest.raises(CatalogError, match="which its statement does not"):
        restore_table(namespace.spark, claimed)
    own = SwitchedView(id=link.view, path=link.rows.path)
    _catalog, table = restore_table(namespace.spark, entry.model_copy(update={"view": own}))
    table.abort()

    assert namespace.tables == []


@for_lakes("parquet")
def test_a_generation_is_removed_if_the_name_of_its_view_was_taken(
    namespace: LakeNamespace, link: ViewLink, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.ctas.catalogs import restore_table
    from headrace.driver.ctas.view_switch import ViewSwitch

    def crash(*_arguments: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(ViewSwitch, "switch_to", crash)
        with pytest.raises(Crash):
            link.create(namespace.spark, f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS a")
    namespace.spark.sql(f"CREATE VIEW {name} AS SELECT 7 AS a")
    assert link.rows is not None
    view = SwitchedView(id=link.view, path=link.rows.path)
    entry = journal_entry(link).model_copy(update={"view": view})
    _catalog, table = restore_table(namespace.spark, entry)
    table.abort()

    assert namespace.tables == ["v"]
    assert fetch_rows(namespace.spark, f"SELECT a FROM {name}") == [(7,)]


@for_lakes("parquet")
def test_an_intent_that_raises_any_error_does_not_stop_other_work(
    namespace: LakeNamespace, link: ViewLink, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.ctas.session_catalog import SessionCatalog

    link.create(namespace.spark, f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS a")

    def fail(*_arguments: object) -> None:
        raise RuntimeError("no connection")

    link.intend(IntentAction.DROP_GENERATION, 7)
    with monkeypatch.context() as patch:
        patch.setattr(SessionCatalog, "find_view_id", fail)
        link.refresh(namespace.spark)

    assert [each.message for each in link.failed] == ["RuntimeError: no connection"]
    assert namespace.tables == ["__mv_v_1", "__mv_v_2", "v"]
