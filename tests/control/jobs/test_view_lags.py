"""The tables of `max-lag` for jobs that refresh materialized views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import update
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
from headrace.model.run import FiringRules, Overlap
from headrace.store.jobs import jobs, schedules, triggers
from headrace.store.streams import views
from headrace.store.streams.views import NewMaterializedView
from headrace.store.tables import materialized_views


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
        storage: RowStorage = RowStorage.GENERATIONS,
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
            rows=ViewRows(path=path, storage=storage, scope=scope),
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

    def read_rules(self) -> FiringRules:
        """Return the rules of the deployed job."""
        with self.project.node.database.read() as tx:
            job = jobs.find(tx, LOCAL_CALLER.owner, "job")
            assert job is not None
            schedule = schedules.find(tx, job.id)
            assert schedule is not None
            return schedule.rules

    def list_tables(self) -> set[str]:
        """Return the keys of the tables whose changes start runs of the job."""
        with self.project.node.database.read() as tx:
            job = jobs.find(tx, LOCAL_CALLER.owner, "job")
            assert job is not None
            return {row["source_key"] for row in triggers.list_tables(tx, job.id)}


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


def test_a_job_is_deployed_again_with_the_tables_of_a_view_that_was_replaced(
    stored: Views,
) -> None:
    view = stored.add("totals", "SELECT * FROM sales")
    stored.deploy("REFRESH MATERIALIZED VIEW totals")
    assert stored.read_rules().overlap is Overlap.QUEUE
    again = stored.project.plan(job=_keep_fresh("totals"))
    assert again.json()["jobs"][0]["decision"] == "none"
    with stored.project.node.database.write("test") as tx:
        tx.execute(
            update(materialized_views)
            .where(materialized_views.c.id == view.id)
            .values(text="CREATE MATERIALIZED VIEW totals AS SELECT * FROM new_sales")
        )
    [job] = stored.project.deploy(job=_keep_fresh("totals"))["jobs"]
    assert (job["decision"], job["changed"]) == ("update", ["tables of its views"])
    assert stored.list_tables() == {"spark_catalog.`lake`.`new_sales`"}


def test_views_that_read_each_other_are_refreshed_by_one_script_the_inner_one_first(
    stored: Views,
) -> None:
    stored.add("daily", "SELECT * FROM sales")
    stored.add("totals", "SELECT * FROM daily JOIN rates")
    stored.add("iceberg", "SELECT * FROM t", storage=RowStorage.REPLACEMENT)
    stored.add("last", "SELECT * FROM iceberg JOIN daily")
    stored.deploy(
        "; ".join(f"REFRESH MATERIALIZED VIEW {name}" for name in ("daily", "totals", "last"))
    )
    names = {"sales", "rates", "iceberg"}
    assert stored.list_tables() == {f"spark_catalog.`lake`.`{name}`" for name in names}


@pytest.mark.parametrize(
    ("namespace", "read", "key"),
    [
        (["a", "b"], "db.t", "spark_catalog.`db`.`t`"),
        (["a", "b"], "ice.db.t", "ice.`db`.`t`"),
        ([], "db.t", "spark_catalog.`db`.`t`"),
        (["x y"], "T", "spark_catalog.`x y`.`t`"),
    ],
)
def test_a_name_in_a_view_is_completed_as_spark_does(
    stored: Views, namespace: list[str], read: str, key: str
) -> None:
    stored.add("v", f"SELECT * FROM {read}", namespace=namespace)
    stored.deploy("REFRESH MATERIALIZED VIEW v")
    assert stored.list_tables() == {key}


def _keep_fresh(*names: str) -> dict[str, Any]:
    script = "; ".join(f"REFRESH MATERIALIZED VIEW {name}" for name in names)
    return {"script": script, "schedule": {"max-lag": "15min"}}


def refuse(stored: Views, *names: str) -> str:
    problem = stored.project.refuse(job=_keep_fresh(*names))
    assert (problem["code"], problem["path"]) == ("invalid_schedule", "job.yaml")
    assert problem["hint"]
    message: str = problem["message"]
    return message


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT 1", "lake.v reads no table"),
        ("SELECT * FROM parquet.`/data`", "lake.v reads the files parquet.`/data`"),
        ("SELECT * FROM inner_view", "reads the materialized view spark_catalog.lake.inner_view"),
        ("SELECT * FROM of_bob", "reads the materialized view spark_catalog.lake.of_bob"),
    ],
    ids=["no table", "files", "view", "of another owner"],
)
def test_a_view_whose_changes_are_not_seen_is_refused(stored: Views, query: str, text: str) -> None:
    stored.add("inner_view", "SELECT * FROM t")
    stored.add("of_bob", "SELECT * FROM t", owner="bob")
    stored.add("v", query)
    assert text in refuse(stored, "v", "inner_view")


def test_a_view_that_cannot_be_refreshed_is_refused(stored: Views) -> None:
    stored.add("of_bob", "SELECT * FROM t", owner="bob")
    assert f"of_bob of {LOCAL_CALLER.owner} does not exist" in refuse(stored, "of_bob")
    stored.add("twice", "SELECT * FROM t")
    stored.add("twice", "SELECT * FROM t", namespace=["other"])
    message = "twice is ambiguous: spark_catalog.lake.twice, spark_catalog.other.twice."
    assert message in refuse(stored, "twice")
    view = stored.add("live", "SELECT * FROM t")
    with stored.project.node.database.write("test") as tx:
        views.attach_query(tx, view.id, "sq_x")
    assert "live refreshes itself" in refuse(stored, "live")


@pytest.mark.parametrize("namespace", [["a", "b"], []])
def test_a_table_that_is_in_no_database_of_a_catalog_is_refused(
    stored: Views, namespace: list[str]
) -> None:
    stored.add("deep", "SELECT * FROM t", namespace=namespace)
    name = ".".join(["spark_catalog", *namespace, "t"])
    assert f"reads {name}. Headrace sees the changes of tables in" in refuse(stored, "deep")


def test_more_tables_than_a_job_can_follow_are_refused(stored: Views) -> None:
    for name in ("v", "w"):
        read = ", ".join(f"{name}{number}" for number in range(51))
        stored.add(name, f"SELECT * FROM {read}")
    assert "The job reads 102 tables. At most 100 tables can start its runs." in refuse(
        stored, "v", "w"
    )


def test_more_tables_of_sql_than_a_job_can_follow_are_refused(project: Project) -> None:
    read = ", ".join(f"t{number}" for number in range(101))
    job = {"sql": f"SELECT * FROM {read}", "target-table": "d.t", "schedule": {"max-lag": "1h"}}
    assert "The job reads 101 tables." in project.refuse(job=job)["message"]
