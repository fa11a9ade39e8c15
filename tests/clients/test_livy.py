"""Livy's clients: the package `livy`, and the hook, operator and trigger of Airflow."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.client_environments import make_client
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result
from tests.support.node import NodeProcess, bearer

from headrace.model.failure import Failure
from headrace.model.job_messages import FileLanguage, FileRead, FileStatement, RunFile, TaskDone
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment

Json = dict[str, Any]
PYLIVY = "livy==0.8.0"
AIRFLOW = "apache-airflow-providers-apache-livy==4.6.4"
TOKEN = "of-the-node"

pytestmark = pytest.mark.clients

SQL_PROGRAM = """
import json, sys
import requests
from livy import LivySession, SessionKind, SparkRuntimeError
from livy.client import LivyClient

url, token = sys.argv[1:]
http = requests.Session()
http.headers["Authorization"] = token
seen = {}
options = {"kind": SessionKind.SQL, "requests_session": http, "executor_cores": 1}
with LivySession.create(url, **options) as session:
    seen["created"] = session.run("CREATE TABLE livy_t (a INT) USING parquet").json
    session.run("INSERT INTO livy_t VALUES (1), (2)")
    session.run("CREATE TEMPORARY VIEW v AS SELECT a, cast(a / 3 AS decimal(38,18)) AS d,"
                " timestamp'2026-01-15T12:00:00' AS t, array(a, NULL) AS l, map('k', a) AS m,"
                " X'00ff' AS b, cast(NULL AS string) AS n FROM livy_t")
    seen["frame"] = session.download_sql("SELECT a, n FROM v ORDER BY a").values.tolist()
    seen["types"] = session.run("SELECT * FROM v ORDER BY a LIMIT 1").json
    try:
        session.run("SELECT * FROM no_such_table")
    except SparkRuntimeError as error:
        seen["error"] = [error.ename, error.evalue, type(error.traceback).__name__]
    client = LivyClient(url, requests_session=http)
    seen["listed"] = [each.code for each in client.list_statements(session.session_id)][:2]
    seen["sessions"] = session.session_id in [s.session_id for s in client.list_sessions()]
    seen["missing"] = client.get_session(10**9)
print(json.dumps(seen))
"""

BATCH_PROGRAM = """
import json, sys
import requests
from livy import LivyBatch
from livy.client import LivyClient

url, token, *files = sys.argv[1:]
http = requests.Session()
http.headers["Authorization"] = token
seen = {}
for file in files:
    options = {"args": ["7"]} if file.endswith(".py") else {}
    batch = LivyBatch.create(url, file=file, requests_session=http, executor_cores=1, **options)
    batch.wait()
    seen[file] = [batch.state.value, batch.log()[-3:]]
client = LivyClient(url, requests_session=http)
seen["listed"] = len(client.list_batches())
seen["missing"] = client.get_batch(10**9)
client.delete_batch(batch.batch_id)
client.delete_batch(batch.batch_id)
print(json.dumps(seen))
"""

AIRFLOW_PROGRAM = """
import asyncio, json, sys
from airflow.providers.apache.livy.hooks.livy import LivyHook
from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.providers.apache.livy.triggers.livy import LivyTrigger

lines = []

class Log:
    def info(self, text, *values):
        lines.append(text % values if values else text)

    debug = warning = info

LivyHook.log = Log()

class TaskInstance:
    stats_tags = {}

    def __init__(self):
        self.pushed = {}

    def xcom_push(self, key, value):
        self.pushed[key] = value

def run(file, *, store=None, **options):
    ti = TaskInstance()
    options = {"polling_interval": 0.1, **options}
    operator = LivyOperator(task_id="t", file=file, **options)
    context = {"ti": ti}
    if store is not None:
        context["task_state_store"] = store
    try:
        result = operator.execute(context)
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    return {"result": result, "pushed": ti.pushed, "batch": operator._batch_id}

seen = {}
files = json.loads(sys.argv[1])
for name, file in files.items():
    lines.clear()
    options = {"args": [7, "x"]} if file.endswith(".py") else {}
    seen[name] = run(file, driver_cores="1", executor_cores=1, num_executors="2", **options)
    seen[name]["lines"] = lines[-20:]
hook = LivyHook()
first = seen["sql"]["result"]
seen["reconnected"] = run(files["sql"], store={"livy_batch_id": first})
seen["state"] = hook.get_batch_state(first).value
seen["again"] = [hook.delete_batch(first), hook.delete_batch(first)]

async def trigger(batch):
    trigger = LivyTrigger(batch_id=batch, spark_params={}, polling_interval=1)
    return [event.payload async for event in trigger.run()][0]

seen["triggered"] = [asyncio.run(trigger(seen[name]["batch"])) for name in files]
waiting = LivyOperator(task_id="w", file=files["sql"])
waiting._batch_id = waiting.hook.post_batch(**waiting.spark_params)
waiting.on_kill()
waiting.on_kill()
seen["refused"] = run("/data/a.jar")
seen["prefix"] = run(files["sql"], livy_conn_id="livy_prefix", livy_endpoint_prefix="livy")
seen["wrong"] = run(files["sql"], livy_conn_id="livy_wrong")
print("SEEN", json.dumps(seen))
"""


def run_client(
    name: str, requirement: str, program: str, *arguments: str, cwd: Path, **environment: str
) -> Json:
    """Run a program in the environment of a client, and return the JSON of its last line."""
    completed = subprocess.run(
        [make_client(name, requirement), "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    assert completed.returncode == 0, completed.stderr
    last = completed.stdout.rstrip().rpartition("\n")[2]
    seen: Json = json.loads(last.removeprefix("SEEN "))
    return seen


def run_in_airflow(address: str, token: str, files: dict[str, str], folder: Path) -> Json:
    """Run each file by a LivyOperator, and return what the tasks have seen."""
    host, _, port = address.removeprefix("http://").partition(":")
    connections = {
        # Airflow's trigger knows no prefix of the endpoint: the host has it.
        "DEFAULT": {"host": f"{address}/livy", "password": token},
        "PREFIX": {"host": host, "port": int(port), "password": token},
        "WRONG": {"host": f"{address}/livy", "password": "wrong"},
    }
    environment = {
        f"AIRFLOW_CONN_LIVY_{name}": json.dumps({"conn_type": "livy", "login": "token", **fields})
        for name, fields in connections.items()
    }
    environment["AIRFLOW_HOME"] = str(folder / "airflow")
    return run_client(
        "airflow", AIRFLOW, AIRFLOW_PROGRAM, json.dumps(files), cwd=folder, **environment
    )


def reply(assignment: Assignment) -> dict[str, Any]:
    """Read or run files, and fail statements on a table that does not exist."""
    nothing = {"state": StatementState.SUCCESS, "result": inline_result([], [])}
    if isinstance(assignment.task, RunFile):
        if assignment.task.language is FileLanguage.PYTHON:
            assert assignment.task.arguments == ["7", "x"]
            return {**nothing, "task_outcome": TaskDone()}
        texts = ["SELECT 1", "SELECT * FROM t"] if "bad" in assignment.task.location else ["SELECT"]
        read = [FileStatement(text=text, line=1) for text in texts]
        return {**nothing, "task_outcome": FileRead(statements=read)}
    if assignment.text == "SELECT * FROM t":
        failure = Failure(
            code="analysis_error", condition="TABLE_OR_VIEW_NOT_FOUND", message="No table t."
        )
        return {"state": StatementState.FAILED, "failure": failure}
    return nothing


@pytest.fixture
def scripted_node(tmp_path: Path) -> Iterator[InProcessNode]:
    """Serve a node whose drivers answer by themselves."""
    settings = make_settings(tmp_path / "home", token=TOKEN)
    with serve_node(settings, AutoReplyLauncher(reply)) as node:
        yield node


def test_airflow_runs_batches(scripted_node: InProcessNode, tmp_path: Path) -> None:
    files = {"sql": "/data/a.sql", "python": "/data/a.py", "failed": "/data/bad.sql"}
    seen = run_in_airflow(scripted_node.address, TOKEN, files, tmp_path)
    for name in ("sql", "python"):
        assert seen[name]["result"] == seen[name]["batch"]
        assert seen[name]["pushed"] == {"app_id": "local-1"}
    # The batch has a failed statement, and its log says which.
    assert "did not succeed" in seen["failed"]["result"]
    reason = "Statement 2 failed: "
    assert any(line.startswith(reason) for line in seen["failed"]["lines"]), seen["failed"]
    # A task that is retried finds its batch again.
    assert seen["reconnected"]["result"] == seen["sql"]["result"]
    assert seen["state"] == "success"
    assert seen["again"] == [{"msg": "deleted"}] * 2
    statuses = [event["status"] for event in seen["triggered"]]
    assert statuses == ["success", "success", "error"]
    assert seen["triggered"][2]["log_lines"][-1].startswith(reason)
    assert "Status code: 400" in seen["refused"]["result"]
    assert "must end in .sql or .py" in seen["refused"]["result"]
    assert isinstance(seen["prefix"]["result"], int)
    assert "Status code: 401" in seen["wrong"]["result"]


@pytest.fixture(scope="module")
def livy_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Yield a node with real drivers."""
    process = NodeProcess(tmp_path_factory.mktemp("livy") / "home")
    yield process
    process.close()


def address_of(node: NodeProcess) -> str:
    return str(node.http.base_url).rstrip("/")


@pytest.mark.spark
def test_pylivy_runs_sql(livy_node: NodeProcess, tmp_path: Path) -> None:
    token = bearer(livy_node.home).get("Authorization", "")
    url = f"{address_of(livy_node)}/livy"
    seen = run_client("livy", PYLIVY, SQL_PROGRAM, url, token, cwd=tmp_path)
    assert seen["created"] == {"schema": {"type": "struct", "fields": []}, "data": []}
    assert seen["frame"] == [[1, None], [2, None]]
    table = seen["types"]
    fields = [field["name"] for field in table["schema"]["fields"]]
    [row] = table["data"]
    values = dict(zip(fields, row, strict=True))
    assert (values["a"], values["l"], values["n"]) == (1, [1, None], None)
    assert values["d"] == pytest.approx(1 / 3)
    name, text, kind = seen["error"]
    assert (name, kind) == ("analysis_error", "list")
    assert text.startswith("[TABLE_OR_VIEW_NOT_FOUND] ")
    assert seen["listed"][0].startswith("CREATE TABLE livy_t")
    assert seen["sessions"] is True
    assert seen["missing"] is None


def write_files(folder: Path) -> dict[str, str]:
    """Write a SQL file, a Python file, and a SQL file that fails. Return their paths."""
    texts = {
        "good.sql": "CREATE TABLE IF NOT EXISTS batch_t (a INT) USING parquet;\n"
        "-- one; row\nINSERT INTO batch_t VALUES (1);\nSELECT * FROM batch_t;\n",
        "good.py": "import sys\nfrom pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.appName('mine').getOrCreate()\n"
        "spark.range(int(sys.argv[1])).selectExpr('cast(id AS int) AS a')"
        ".write.insertInto('batch_t')\n"
        "print('rows:', spark.table('batch_t').count())\nspark.stop()\n",
        "bad.sql": "SELECT 1;\nSELECT * FROM no_such_table;\nSELECT 2",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in texts}


@pytest.mark.spark
def test_pylivy_runs_batches(livy_node: NodeProcess, tmp_path: Path) -> None:
    files = write_files(tmp_path)
    token = bearer(livy_node.home).get("Authorization", "")
    url = f"{address_of(livy_node)}/livy"
    seen = run_client("livy", PYLIVY, BATCH_PROGRAM, url, token, *files.values(), cwd=tmp_path)
    assert seen[files["good.sql"]][0] == "success"
    assert seen[files["good.py"]][0] == "success", seen
    assert any("rows: 8" in line for line in seen[files["good.py"]][1]), seen
    state, log = seen[files["bad.sql"]]
    assert state == "dead"
    assert any("TABLE_OR_VIEW_NOT_FOUND" in line for line in log), log
    assert (seen["listed"], seen["missing"]) == (3, None)


@pytest.mark.spark
def test_airflow_runs_files_in_spark(livy_node: NodeProcess, tmp_path: Path) -> None:
    paths = write_files(tmp_path)
    files = {"sql": paths["good.sql"], "python": paths["good.py"], "failed": paths["bad.sql"]}
    token = bearer(livy_node.home)["Authorization"].removeprefix("Bearer ")
    seen = run_in_airflow(address_of(livy_node), token, files, tmp_path)
    for name in ("sql", "python"):
        assert seen[name]["result"] == seen[name]["batch"], seen[name]
        assert seen[name]["pushed"]["app_id"].startswith("local-")
    assert any("rows: " in line for line in seen["python"]["lines"]), seen["python"]
    [line] = [each for each in seen["failed"]["lines"] if each.startswith("Statement 2 failed: ")]
    assert "no_such_table" in line
