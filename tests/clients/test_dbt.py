"""dbt-spark by its method `thrift`: every kind of model, and a run that loses its node."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML
from tests.support.client_environments import (
    DBT,
    PAIR_TOKEN,
    ROOT,
    ClientNode,
    PythonClient,
    make_client,
    running_pair,
)
from tests.support.processes import processes_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.spark, pytest.mark.timeout(900)]

PAGE = ROOT / "docs" / "connect" / "dbt.md"
PEOPLE = {
    1: 'ada,O\'Hara \\\\ "x" 100%,2026-01-01 00:00:00',
    2: "bob,plain,2026-01-01 00:00:00",
}
APPENDED = "{{ config(materialized='incremental', incremental_strategy='append') }}\n"
SLOW_RANGE = (
    "range(0, {{ var('rows') }}, 1, 2) WHERE reflect('java.lang.Thread', 'sleep', 200L) IS NOT NULL"
)
"""The rows of a model that takes a tenth of a second for each."""
FILES = {
    "dbt_project.yml": """
        name: shop
        version: '1.0'
        profile: shop
        models: {shop: {+persist_docs: {relation: true, columns: true}}}
        """,
    "models/schema.yml": """
        models:
          - name: people_table
            description: "All people, it's said"
            columns:
              - name: id
                description: Number
                data_tests: [unique, not_null]
              - name: name
                data_tests: [{accepted_values: {arguments: {values: [ada, bob, cai]}}}]
          - name: merged
            columns:
              - name: id
                data_tests:
                  - unique
                  - relationships: {arguments: {to: ref('people_table'), field: id}}
        """,
    "models/people_view.sql": "select * from {{ ref('people') }}",
    "models/people_table.sql": """
        {{ config(materialized='table', file_format='delta') }}
        select id, name, note, cast(changed as timestamp) as changed
        from {{ ref('people_view') }}
        """,
    "models/merged.sql": """
        {{ config(materialized='incremental', incremental_strategy='merge', unique_key='id',
                  file_format='delta') }}
        select * from {{ ref('people_table') }}
        {% if is_incremental() %} where changed > '2026-01-15' {% endif %}
        """,
    "models/overwritten.sql": """
        {{ config(materialized='incremental', incremental_strategy='insert_overwrite',
                  partition_by=['day'], file_format='parquet') }}
        select id, name, date(changed) as day from {{ ref('people_table') }}
        {% if is_incremental() %} where changed > '2026-01-15' {% endif %}
        """,
    "models/appended.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select id, name from {{ ref('people_table') }}
        """,
    "snapshots/people_history.sql": """
        {% snapshot people_history %}
        {{ config(target_schema=target.schema, unique_key='id', strategy='check',
                  check_cols=['name', 'note'], file_format='delta') }}
        select * from {{ ref('people_table') }}
        {% endsnapshot %}
        """,
}


@dataclass
class Project:
    """A folder with a project of dbt, and its profile."""

    folder: Path
    profile: dict[str, Any]

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(line.removeprefix(8 * " ") for line in text.splitlines()))

    def write_people(self, people: dict[int, str]) -> None:
        """Write the seed. The second field is quoted as in CSV."""
        lines = ["id,name,note,changed"]
        for number, row in people.items():
            name, note, changed = row.split(",")
            escaped = note.replace('"', '""')
            lines.append(f'{number},{name},"{escaped}",{changed}')
        self.write("seeds/people.csv", "\n".join(lines) + "\n")

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[str]]:
        """Run dbt for the block."""
        outputs = {"dev": self.profile}
        self.write("profiles.yml", json.dumps({"shop": {"target": "dev", "outputs": outputs}}))
        program = make_client("dbt", *DBT).parent / "dbt"
        environment = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
        process = subprocess.Popen(
            [program, "--no-use-colors", *command, "--profiles-dir", "."],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def run(self, *command: str, status: int = 0) -> str:
        """Return what a command of dbt prints. Fail the test if it ends with another status."""
        with self.running(*command) as process:
            printed, _ = process.communicate(timeout=600)
        assert process.returncode == status, printed
        return printed


def make_project(folder: Path, schema: str, **profile: Any) -> Project:
    """Return a project with all kinds of models, and the profile of the documentation."""
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    documented = YAML(typ="safe").load(block)["shop"]["outputs"]["dev"]
    values = {**documented, "host": "127.0.0.1", "schema": schema, "connect_timeout": 1}
    project = Project(folder, values | profile)
    for name, text in FILES.items():
        project.write(name, text)
    project.write_people(PEOPLE)
    return project


@pytest.fixture
def project(server: ClientNode, tmp_path: Path) -> Project:
    password = {"user": server.user, "password": server.password}
    return make_project(tmp_path / "shop", "dbt_shop", port=server.hive_port, **password)


def rows(http: httpx.Client, query: str) -> list[list[Any]]:
    """Return the rows of a query. A BIGINT is text, as in JSON."""
    body = {"statement": query, "wait_timeout": "60s"}
    answer = http.post("/api/v1/statements", json=body).json()
    assert answer["state"] == "success", answer
    result = http.get(f"/api/v1/statements/{answer['id']}/result").json()
    return [list(row) for row in result["rows"]]


def test_every_kind_of_model_is_built_and_built_again(project: Project, server: ClientNode) -> None:
    project.run("debug")
    first = project.run("build")
    assert "ERROR=0" in first
    assert rows(server.http, "SELECT note FROM dbt_shop.people ORDER BY id")[0] == [
        'O\'Hara \\\\ "x" 100%'
    ]

    project.write_people(
        PEOPLE | {2: "bob,changed,2026-02-01 00:00:00", 3: "cai,new,2026-02-01 00:00:00"}
    )
    second = project.run("build")
    assert "ERROR=0" in second
    merged = rows(server.http, "SELECT id, note FROM dbt_shop.merged WHERE id > 1 ORDER BY id")
    assert merged == [["2", "changed"], ["3", "new"]]
    overwritten = "SELECT id, day FROM dbt_shop.overwritten ORDER BY day, id"
    assert [row[0] for row in rows(server.http, overwritten)] == ["1", "2", "2", "3"]
    assert rows(server.http, "SELECT count(*) FROM dbt_shop.appended") == [["5"]]
    history = "SELECT id, dbt_valid_to IS NULL FROM dbt_shop.people_history ORDER BY id, 2"
    assert rows(server.http, history) == [["1", True], ["2", False], ["2", True], ["3", True]]

    project.run("docs", "generate")
    catalog = json.loads((project.folder / "target" / "catalog.json").read_text())
    table = catalog["nodes"]["model.shop.people_table"]
    assert [*table["columns"]] == ["id", "name", "note", "changed"]
    assert catalog["nodes"]["model.shop.people_view"]["metadata"]["type"] == "view"


def test_a_failed_test_and_an_error_of_sql_are_reported(project: Project) -> None:
    project.profile["schema"] = "dbt_wrong"
    project.write("models/wrong.sql", "select nope from {{ ref('people') }}")
    printed = project.run("build", "--select", "people", "wrong", status=1)
    assert "[UNRESOLVED_COLUMN" in printed
    project.write("models/wrong.sql", "select 'dan' as name")
    project.write(
        "models/wrong.yml",
        """
        models:
          - name: wrong
            columns: [{name: name, data_tests: [{accepted_values: {arguments: {values: [x]}}}]}]
        """,
    )
    printed = project.run("build", "--select", "wrong", status=1)
    assert "Got 1 result, configured to fail if != 0" in printed


def test_dbt_finds_what_it_looks_for_in_listings_and_messages(server: ClientNode) -> None:
    client = PythonClient(make_client("dbt", *DBT), "from pyhive import hive")
    seen = client.run(
        """
        connection = hive.connect(host, hive_port, username=user, password=password, auth="LDAP")
        cursor = connection.cursor()
        def fetch(text):
            cursor.execute(text)
            return cursor.fetchall()
        for text in ("CREATE DATABASE dbt_listed", "CREATE TABLE dbt_listed.t (a INT) USING delta",
                     "CREATE VIEW dbt_listed.v AS SELECT 1 AS a"):
            cursor.execute(text)
        messages = []
        for text in ("SHOW TABLE EXTENDED IN dbt_nope LIKE '*'", "DESCRIBE EXTENDED dbt_nope.t"):
            cursor.execute(text, async_=True)
            while not (message := cursor.poll().errorMessage):
                pass
            messages.append(message)
        extended = fetch("SHOW TABLE EXTENDED IN dbt_listed LIKE '*'")
        seen = [extended, fetch("SHOW TABLES IN dbt_listed"), messages]
        """,
        **server.values,
    )
    extended, tables, [no_schema, no_table] = seen
    assert [row[:3] for row in extended] == tables
    assert tables == [["dbt_listed", "t", False], ["dbt_listed", "v", False]]
    assert "Provider: delta" in extended[0][3]
    assert "Type: VIEW" in extended[1][3]
    assert "[SCHEMA_NOT_FOUND]" in no_schema
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in no_table


def test_a_session_survives_its_driver_between_two_statements_of_a_model(
    server: ClientNode,
) -> None:
    """An incremental model sets a value and creates a view, then inserts from the view."""
    client = PythonClient(make_client("dbt", *DBT), "from pyhive import hive")
    drivers = [
        process.pid
        for process in processes_of(server.node.home)
        if "headrace.driver" in process.cmdline()
    ]
    seen = client.run(
        """
        import os, signal
        connection = hive.connect(host, hive_port, username=user, password=password, auth="LDAP")
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE dbt_lost (a INT) USING parquet")
        cursor.execute('/* {"app": "dbt"} */ SET spark.sql.shuffle.partitions=7')
        cursor.execute('/* {"app": "dbt"} */ CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1 AS a')
        for pid in drivers:
            os.kill(pid, signal.SIGKILL)
        cursor.execute('/* {"app": "dbt"} */ INSERT INTO dbt_lost SELECT a FROM v')
        cursor.execute("SELECT a FROM dbt_lost")
        seen = cursor.fetchall()
        cursor.execute("SET spark.sql.shuffle.partitions")
        seen += cursor.fetchall()
        """,
        **server.values,
        drivers=drivers,
    )
    assert drivers
    assert seen == [[1], ["spark.sql.shuffle.partitions", "7"]]


@pytest.mark.postgres
def test_a_run_that_loses_its_node_ends_well_with_another_one(
    postgres_url: str, tmp_path: Path
) -> None:
    with running_pair(tmp_path, postgres_url) as (first, second):
        project = make_project(
            tmp_path / "shop",
            "dbt_pair",
            user="token",
            password=PAIR_TOKEN,
        )
        project.write("models/slow.sql", APPENDED + f"select id from {SLOW_RANGE}")
        project.write("models/after.sql", APPENDED + "select id from {{ ref('slow') }}")
        models = ("--select", "slow", "after", "--vars")
        project.profile["port"] = first.hive_port
        project.run("run", *models, "{rows: 2}")
        with project.running("run", *models, "{rows: 300}") as process:

            def inserts() -> list[str]:
                page = second.http.get("/api/v1/statements", params={"state": "running"}).json()
                texts = (statement["statement"] for statement in page["items"])
                return [text for text in texts if "insert into" in text]

            wait_until(inserts, seconds=120, what="the model is inserted")
            first.kill()
            printed, _ = process.communicate(timeout=120)
        assert process.returncode == 1, printed
        assert "ERROR=1 SKIP=1" in printed

        project.profile["port"] = second.hive_port
        project.run("retry")
        query = "SELECT (SELECT count(*) FROM dbt_pair.slow), (SELECT count(*) FROM dbt_pair.after)"
        assert rows(second.http, query) == [["302", "304"]]
