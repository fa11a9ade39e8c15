"""A rolling upgrade: a node of the previous revision and a node of this one share a store."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.support.node import NodeProcess
from tests.support.postgres import Postgres
from tests.support.processes import processes_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

PREVIOUS = "3e3172a2edd38bb12fff39102c242a36a7d4661f"
"""The last revision with the previous schema, 0004."""

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def previous_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a program that runs Python with the packages of the previous revision."""
    folder = tmp_path_factory.mktemp("previous")
    command = ["git", "-C", str(_ROOT), "archive", PREVIOUS, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("the history of this checkout does not hold the previous revision")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    program = folder / "python"
    source, python = shlex.quote(str(folder / "src")), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {python} "$@"\n')
    program.chmod(0o700)
    return str(program)


def _rows(node: NodeProcess, statement_id: str) -> list[list[object]]:
    rows: list[list[object]] = node.http.get(f"/api/v1/statements/{statement_id}/result").json()[
        "rows"
    ]
    return rows


def test_a_driver_of_the_previous_revision_continues_under_a_new_node(
    tmp_path: Path, postgres: Postgres, previous_python: str
) -> None:
    database = postgres.new_database()
    settings = {
        "STORE__URL": postgres.url(database),
        "CATALOG__KIND": "memory",
        "RESULTS__LOCATION": str(tmp_path / "results"),
        "LEASE__RENEW": "1s",
        "HTTP__AUTH": "false",
    }
    old = NodeProcess(
        tmp_path / "old",
        python=previous_python,
        PROFILES__DEFAULT__PYTHON=previous_python,
        **settings,
    )
    session = old.session(name="mine")
    old.run("CREATE TEMPORARY VIEW numbers AS SELECT * FROM range(3)", session=session)
    epoch = old.http.get("/api/v1/sessions/mine").json()["epoch"]

    # This node upgrades the schema, while the old node and its driver work.
    new = NodeProcess(tmp_path / "new", **settings)
    try:
        for submits, reads in ((old, new), (new, old)):
            statement = submits.run("SELECT count(*) FROM numbers", session=session)
            assert _rows(reads, statement["id"]) == [["3"]]
        ctas = new.run("CREATE TABLE copied USING parquet AS SELECT * FROM numbers", session="mine")
        assert ctas["state"] == "success"

        old.stop()
        statement = new.run("SELECT sum(id) FROM copied", session=session)

        assert _rows(new, statement["id"]) == [["3"]]
        described = new.http.get("/api/v1/sessions/mine").json()
        assert (described["epoch"], described["state"]) == (epoch, "running")
    finally:
        old.http.close()
        new.close()
        wait_until(lambda: not processes_of(old.home), seconds=30, what="the driver has ended")
        postgres.drop(database)
