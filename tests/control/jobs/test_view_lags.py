"""The tables of `max-lag` for jobs that refresh materialized views."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.batch_project import Project
from tests.support.deployed_job import DeployedJob
from tests.support.identities import LOCAL_CALLER
from tests.support.views import IDENTITY

from headrace.model.materialized_view import (
    MaterializedView,
    NameScope,
    RowStorage,
    ViewRows,
)
from headrace.store.streams import views
from headrace.store.streams.views import NewMaterializedView


class Views:
    """Views of the store, without their rows, and jobs that refresh them."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def add(
        self,
        name: str,
        query: str,
        *,
        namespace: Sequence[str] = ("lake",),
        owner: str = LOCAL_CALLER.owner,
    ) -> MaterializedView:
        """Insert a view whose query is resolved in the namespace where the view is."""
        scope = NameScope(catalog="spark_catalog", namespace=list(namespace))
        path = ["spark_catalog", *namespace, name]
        new = NewMaterializedView(
            owner=owner,
            name=name,
            identity=IDENTITY,
            target=".".join([owner, *path]),
            text=f"CREATE MATERIALIZED VIEW {name} AS {query}",
            rows=ViewRows(path=path, storage=RowStorage.GENERATIONS, scope=scope),
            statement_id="st_x",
            attempt=1,
        )
        with self.project.node.database.write("test") as tx:
            return views.insert_view(tx, new, actor=owner)

    def deploy(self, script: str) -> str:
        """Deploy a job that keeps views fresh. Return what its plan says."""
        job = {"script": script, "schedule": {"max-lag": "15min"}}
        [note] = self.project.deploy(job=job)["jobs"][0]["notes"]
        assert isinstance(note, str)
        return note


@pytest.fixture
def project(deployed_job: DeployedJob) -> Project:
    return Project(deployed_job.node)


@pytest.fixture
def stored(project: Project) -> Views:
    return Views(project)


def test_the_tables_of_a_view_count_by_the_names_that_its_own_namespace_gives_them(
    stored: Views,
) -> None:
    stored.add("totals", "WITH s AS (SELECT * FROM sales) SELECT * FROM s JOIN ref.rates, ice.db.t")
    stored.add("other", "SELECT * FROM Sales JOIN x")
    note = stored.deploy("REFRESH MATERIALIZED VIEW totals; REFRESH MATERIALIZED VIEW lake.other")
    assert note.startswith(
        "runs keep the rows at most 15 min behind the changes of spark_catalog.lake.Sales,"
        " spark_catalog.ref.rates, ice.db.t, spark_catalog.lake.x;"
    )


def test_named_tables_are_used_in_place_of_those_of_the_view(project: Project) -> None:
    job = {
        "script": "REFRESH MATERIALIZED VIEW missing",
        "schedule": {"max-lag": "15min", "of": ["sales"]},
    }
    [note] = project.deploy(job=job)["jobs"][0]["notes"]
    assert "the changes of sales;" in note


def refuse(stored: Views, name: str) -> str:
    job = {"script": f"REFRESH MATERIALIZED VIEW {name}", "schedule": {"max-lag": "15min"}}
    problem = stored.project.refuse(job=job)
    assert (problem["code"], problem["path"]) == ("invalid_schedule", "job.yaml")
    assert problem["hint"]
    message: str = problem["message"]
    return message


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT 1", "lake.v reads no table"),
        ("SELECT * FROM parquet.`/data`", "reads the files parquet.`/data`"),
        ("SELECT * FROM inner_view", "reads the materialized view spark_catalog.lake.inner_view"),
    ],
    ids=["no table", "files", "view"],
)
def test_a_view_whose_changes_are_not_seen_is_refused(stored: Views, query: str, text: str) -> None:
    stored.add("inner_view", "SELECT * FROM t")
    stored.add("v", query)
    assert text in refuse(stored, "v")


def test_a_view_that_cannot_be_found_is_refused(stored: Views) -> None:
    stored.add("of_bob", "SELECT * FROM t", owner="bob")
    assert "of_bob does not exist" in refuse(stored, "of_bob")
    stored.add("twice", "SELECT * FROM t")
    stored.add("twice", "SELECT * FROM t", namespace=["other"])
    assert "twice is ambiguous" in refuse(stored, "twice")


def test_a_view_in_a_namespace_of_several_levels_needs_named_tables(stored: Views) -> None:
    stored.add("deep", "SELECT * FROM t", namespace=["a", "b"])
    assert "is not the name of a table" in refuse(stored, "deep")
