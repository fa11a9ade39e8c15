"""Jobs that follow others: what a deployment and a deletion refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.batch_project import Project
from tests.support.deployed_job import DeployedJob
from tests.support.identities import LOCAL_CALLER
from tests.support.waiting import wait_until

from headrace.store.jobs import triggers


@pytest.fixture
def project(deployed_job: DeployedJob) -> Project:
    return Project(deployed_job.node)


def test_jobs_of_one_deployment_and_deployed_ones_are_followed(project: Project) -> None:
    ended = project.deploy(load=None, clean=["Load"])
    notes = {job["name"]: job["notes"] for job in ended["jobs"]}
    assert notes["clean"] == ["a run starts after Load"]
    project.deploy(report=["clean", "load"])
    assert project.followers("load") == ["clean", "report"]
    project.deploy(report=["clean"])
    assert project.followers("load") == ["clean"]


def test_a_job_that_does_not_exist_is_refused_with_near_names(project: Project) -> None:
    project.deploy(load_sales=None)
    problem = project.refuse(clean=["load_sale"])
    assert problem["code"] == "unknown_job"
    assert "follows the job load_sale, which does not exist" in problem["message"]
    assert problem["hint"] == "Did you mean load_sales?"
    assert problem["path"] == "clean.yaml"


@pytest.mark.parametrize(
    ("after", "path"),
    [
        ({"a": ["a"]}, "a → a"),
        ({"a": ["c"], "b": ["a"], "c": ["b"]}, "a → c → b → a"),
        ({"start": ["b"], "a": ["b"], "b": ["a"]}, "b → a → b"),
    ],
    ids=["itself", "three", "behind"],
)
def test_a_cycle_is_refused_with_its_path(
    project: Project, after: dict[str, list[str]], path: str
) -> None:
    problem = project.refuse(**after)
    assert (problem["code"], problem["message"]) == (
        "cyclic_schedule",
        f"The jobs follow each other in a cycle: {path}.",
    )


def test_a_cycle_through_a_deployed_job_is_refused_by_the_plan_and_on_applying(
    project: Project,
) -> None:
    project.deploy(a=None, b=None)
    planned = project.plan(a=["b"]).json()
    project.deploy(b=["a"])
    assert project.refuse(a=["b"])["code"] == "cyclic_schedule"
    answer = project.node.http.post(f"/api/v1/deployments/{planned['id']}/apply")
    assert (answer.status_code, "cycle: " in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("schedule", "source"),
    [({"after": ["load"]}, "job load"), ({"on-change": ["t"]}, "table spark_catalog.")],
    ids=["job", "table"],
)
def test_a_bounded_number_of_jobs_follows_a_job_or_a_table(
    project: Project, monkeypatch: pytest.MonkeyPatch, schedule: dict[str, Any], source: str
) -> None:
    monkeypatch.setattr("headrace.control.jobs.trigger_checks._MOST_FOLLOWERS", 2)
    followers = {
        name: {"script": "SELECT 1", "schedule": {"any": [{"every": "1h"}, schedule]}}
        for name in ("a", "b", "c")
    }
    problem = project.refuse(load=None, **followers)
    assert (problem["code"], problem["path"]) == ("too_many_followers", "c.yaml")
    assert problem["message"].startswith(f"3 jobs follow the {source}")
    del followers["c"]
    assert project.plan(load=None, **followers).status_code == 201


def test_a_job_that_others_follow_is_not_deleted(project: Project) -> None:
    project.deploy(load=None, clean=["load"])
    answer = project.node.http.delete("/api/v1/jobs/load")
    assert answer.status_code == 409
    assert "clean would never run again" in answer.json()["detail"]
    [problem] = project.plan(prune=True, clean=["load"]).json()["problems"]
    assert problem["code"] == "unknown_job"
    for name in ("clean", "load"):
        deleted = project.node.http.delete(f"/api/v1/jobs/{name}")
        assert deleted.status_code == 202, deleted.text
        project.await_end(deleted.json()["id"])


def test_a_stopped_job_runs_for_what_has_ended_meanwhile(project: Project) -> None:
    project.deploy(load=None, clean=["load"])
    project.act("clean", "stop")
    run = project.node.http.post("/api/v1/jobs/load/runs", json={}).json()
    cancelled = project.node.http.post(f"/api/v1/runs/{run['id']}/cancel")
    assert cancelled.status_code == 202

    def list_runs(name: str) -> Any:
        return project.node.http.get("/api/v1/runs", params={"job": name}).json()["items"]

    wait_until(lambda: list_runs("load")[0]["ended_at"])
    assert list_runs("clean") == []
    project.act("clean", "start")
    wait_until(lambda: list_runs("clean"))
    [gap] = list_runs("clean")
    assert (gap["state"], gap["trigger"]) == ("skipped", "condition")
    assert [(each["job"], each["run"]) for each in gap["inputs"]] == [("load", run["id"])]
    again = {"at": gap["logical_time"]}
    repeated = project.node.http.post("/api/v1/jobs/clean/runs", json=again).json()
    assert (repeated["repetition"], repeated["interval_start"]) == (1, gap["interval_start"])


def test_a_backfill_of_a_job_that_follows_names_the_job_to_backfill(project: Project) -> None:
    project.deploy(load=None, clean=["load"])
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    answer = project.node.http.post("/api/v1/jobs/clean/backfills", json=body)
    assert (answer.status_code, "backfill of load" in answer.json()["hint"]) == (400, True)


def test_a_stream_is_not_followed(project: Project) -> None:
    stream = {"name": "live", "sql": "SELECT value FROM numbers", "target-table": "t"}
    follower = {"name": "clean", "script": "SELECT 1", "schedule": {"after": ["live"]}}
    answer = project.node.http.post(
        "/api/v1/deployments",
        json={
            "manifests": [
                {"path": f"{each['name']}.yaml", "text": json.dumps(each)}
                for each in (stream, follower)
            ],
            "definitions": [{"path": "d.sql", "text": "CREATE STREAM numbers FROM rate;"}],
        },
    )
    [problem] = answer.json()["problems"]
    assert problem["message"] == "clean follows the job live, which is a stream."


def _watch(table: str, target: str) -> dict[str, Any]:
    schedule = {"on-change": [table], "settle": "1min"}
    return {"sql": "SELECT 1 AS a", "schedule": schedule, "target-table": target}


def test_a_cycle_of_tables_is_refused_and_a_job_may_watch_its_own(project: Project) -> None:
    problem = project.refuse(a=_watch("Sales", "d.clean"), b=_watch("d.CLEAN", "default.sales"))
    assert problem["message"] == "The jobs follow each other in a cycle: a → b → a."
    ended = project.deploy(a=_watch("sales", "sales"))
    [note] = ended["jobs"][0]["notes"]
    assert "changes sales; writes of other programs and of streams are not seen" in note


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ({"on-files": "in"}, "not absolute"),
        ({"on-files": "/in/*.json"}, "is a pattern"),
        ({"on-files": "s3a://key:secret@lake/in"}, "contains a password"),
        ({"on-files": "hdfs://nn/in"}, "local directories and S3 only"),
        ({"on-files": "s3a:in"}, "not absolute, although it has a scheme"),
        ({"on-files": "/" + "x" * 1024}, "more than 1,024 characters"),
        ({"on-files": "/etc"}, "may not follow the files of /etc"),
        ({"on-files": "/in", "poll": "10ms"}, "`poll` is at least 1s"),
        ({"on-files": "/in", "pattern": "a/*"}, "without a slash"),
        ({"on-files": "/in", "marker": ""}, "without a slash"),
        ({"on-files": "/in", "marker": "_SUCCESS", "settle": "9s"}, "delete `settle`"),
        ({"every": "1h", "poll": "10s"}, "`poll` only goes with `on-files`"),
        ({"any": [{"on-files": "/a"}, {"on-files": "/b"}]}, "has two `on-files`"),
        ({"all": [{"every": "1h"}, {"on-files": "/etc"}]}, "may not follow the files of /etc"),
        ({"all": [{"on-files": "/a"}, {"on-files": "/b"}]}, "has two `on-files`"),
        ({"on-change": ["a b"]}, "'a b' is not the name of a table"),
        ({"max-lag": "1h", "of": ["a b"]}, "'a b' is not the name of a table"),
        ({"any": [{"max-lag": "1h", "of": ["t"]}, {"every": "1h"}]}, "`max-lag` is not combined"),
        ({"after": ["a"], "settle": "1s"}, "`settle` only goes with `on-change`"),
    ],
    ids=[
        *("relative", "glob", "password", "scheme", "no slash", "long", "denied"),
        *(
            "poll",
            "pattern",
            "marker",
            "marker and settle",
            "no files",
            "two locations",
            "denied in all",
        ),
        *("all", "name", "lag", "combined", "settle"),
    ],
)
def test_a_condition_that_cannot_be_met_is_refused(
    project: Project, schedule: dict[str, Any], text: str
) -> None:
    problem = project.refuse(job={"script": "SELECT 1", "schedule": schedule})
    assert text in problem["message"]


@pytest.mark.parametrize("overlap", ["skip", "cancel-previous"])
@pytest.mark.parametrize(
    "schedule", [{"on-files": "/in"}, {"all": [{"every": "1h"}, {"on-files": "/in"}]}]
)
def test_a_run_for_new_files_cannot_be_left_out(
    project: Project, overlap: str, schedule: dict[str, Any]
) -> None:
    rules = {"schedule": schedule, "overlap": overlap}
    problem = project.refuse(job={"script": "SELECT 1", **rules})
    assert "no run would read the files of a run that is left out" in problem["message"]


@pytest.mark.parametrize(
    "deployed_job", [{"watched_locations": {"/data": ["*"]}}], ids=["allowed"], indirect=True
)
def test_the_plan_notes_which_files_start_a_run(project: Project) -> None:
    schedule = {"any": [{"on-files": "/data/in", "pattern": "*.json"}, {"cron": "@daily"}]}
    ended = project.deploy(job={"script": "SELECT 1", "schedule": schedule})
    assert ended["jobs"][0]["notes"][1] == (
        "a run starts when /data/in has new files with names such as *.json; those that are there"
        " already count as new"
    )
    # The node of the test lists the files, which are not there.
    reason = wait_until(lambda: project.node.http.get("/api/v1/jobs/job").json()["reason"])
    assert reason == "The location /data/in does not exist."


@pytest.mark.parametrize(
    "deployed_job", [{"watched_locations": {"/data": ["*"]}}], ids=["allowed"], indirect=True
)
def test_the_plan_notes_files_that_count_together_with_other_conditions(project: Project) -> None:
    schedule = {"all": [{"on-files": "/data/in"}, {"any": [{"every": "1h"}, {"after": ["a"]}]}]}
    ended = project.deploy(
        a={"script": "SELECT 1", "schedule": "manual"},
        job={"script": "SELECT 1", "schedule": schedule},
    )
    [notes] = [job["notes"] for job in ended["jobs"] if job["name"] == "job"]
    assert notes[:2] == [
        "a run starts: When /data/in has new files, and (every 1 h, or after a)",
        "a run also needs that /data/in has new files; those that are there already count as new",
    ]


def test_a_cycle_within_any_is_refused_and_the_plan_notes_each_condition(project: Project) -> None:
    def start_after(name: str) -> dict[str, Any]:
        schedule = {"any": [{"every": "1h"}, {"after": [name]}]}
        return {"script": "SELECT 1", "schedule": schedule}

    problem = project.refuse(a=start_after("b"), b=start_after("a"))
    assert problem["code"] == "cyclic_schedule"
    ended = project.deploy(a=None, b=start_after("a"))
    [_a, b] = ended["jobs"]
    assert b["notes"][0] == "a run starts: Every 1 h, or after a"
    assert b["notes"][1].startswith("next runs: ")


def _keep_fresh(query: str, target: str = "d.target") -> dict[str, Any]:
    return {"sql": query, "schedule": {"max-lag": "15min"}, "target-table": target}


def test_a_job_with_a_lag_runs_when_it_is_deployed_and_shows_its_lag(project: Project) -> None:
    query = "SELECT * FROM Sales JOIN d.target USING (id)"
    ended = project.deploy(fresh=_keep_fresh(query))
    [note] = ended["jobs"][0]["notes"]
    assert note.startswith(
        "runs keep the rows at most 15 min behind the changes of Sales, d.target;"
    )

    def list_runs() -> Any:
        return project.node.http.get("/api/v1/runs", params={"job": "fresh"}).json()["items"]

    wait_until(list_runs)
    [run] = list_runs()
    assert (run["trigger"], run["inputs"]) == ("condition", [])
    shown = project.node.http.get("/api/v1/jobs/fresh").json()
    assert shown["freshness"]["max_lag_seconds"] == 900
    assert 0 < shown["freshness"]["lag_seconds"] < 900
    assert (shown["freshness"]["is_exceeded"], shown["reason"]) == (False, None)
    metrics = project.node.http.get("/metrics").text
    owner = LOCAL_CALLER.owner
    assert f'headrace_job_max_lag_seconds{{job="fresh",owner="{owner}"}} 900.0' in metrics

    def list_notes() -> set[str]:
        with project.node.database.read() as tx:
            return {each.transaction_id for each in triggers.list_changes(tx, shown["id"], 9)}

    # A changed query has to be run, although its tables are the same.
    noted = list_notes()
    project.deploy(fresh=_keep_fresh(f"{query} WHERE id > 0"))
    assert list_notes() - noted or len(list_runs()) == 2


def test_tables_that_queries_name_complete_a_cycle(project: Project) -> None:
    problem = project.refuse(
        a=_keep_fresh("SELECT * FROM d.clean", "sales"), b=_watch("sales", "d.clean")
    )
    assert problem["message"] == "The jobs follow each other in a cycle: a → b → a."


@pytest.mark.parametrize(
    ("definitions", "table", "text"),
    [
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM w, s.t;\nCREATE VIEW w AS TABLE u;", "v", ""),
        ("CREATE TEMPORARY VIEW v USING json OPTIONS (path '/x');", "v", "view v reads no table"),
        ("USE other;", "v", "changes the catalog or the database"),
        ("SET CATALOG lake;", "v", "changes the catalog or the database"),
        ("USE other;", "lake.d.v", ""),
        ("SET spark.sql.ansi.enabled=true;", "parquet.`/data/x`", "reads the files"),
    ],
    ids=["views", "files in a view", "database", "catalog", "whole name", "files"],
)
def test_views_of_the_definitions_stand_for_their_tables(
    project: Project, definitions: str, table: str, text: str
) -> None:
    manifest = {"name": "fresh", **_keep_fresh(f"SELECT * FROM {table}")}
    body = {
        "manifests": [{"path": "fresh.yaml", "text": json.dumps(manifest)}],
        "definitions": [{"path": "d.sql", "text": definitions}],
    }
    answer = project.node.http.post("/api/v1/deployments", json=body).json()
    if text:
        [problem] = answer["problems"]
        assert text in problem["message"]
        assert "of: [db.table]" in problem["hint"]
    else:
        [note] = answer["jobs"][0]["notes"]
        tables = "u, s.t" if table == "v" else table
        assert f"behind the changes of {tables};" in note
