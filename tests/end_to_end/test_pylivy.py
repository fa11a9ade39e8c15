"""The package `livy` runs SQL on a real node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.client_environments import make_client
from tests.support.node import NodeProcess, bearer

pytestmark = pytest.mark.spark

PROGRAM = """
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


def test_pylivy_runs_sql(node: NodeProcess, tmp_path: Path) -> None:
    python = make_client("livy", "livy==0.8.0")
    url = f"{str(node.http.base_url).rstrip('/')}/livy"
    token = bearer(node.home).get("Authorization", "")
    completed = subprocess.run(
        [python, "-c", PROGRAM, url, token],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    assert completed.returncode == 0, completed.stderr
    seen = json.loads(completed.stdout)
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
