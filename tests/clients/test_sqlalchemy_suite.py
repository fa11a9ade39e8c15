"""SQLAlchemy's own compliance suite for dialects, with a node and Spark.

It runs in a process of its own: the plugin of the suite takes over pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node import NodeProcess

import headrace

pytestmark = [pytest.mark.clients, pytest.mark.spark]
SUITE = Path(__file__).parents[1] / "client" / "sqlalchemy_suite"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path_factory.mktemp("sqlalchemy_suite") / "home")
    yield process
    process.close()


@pytest.mark.timeout(900)
def test_the_suite_of_sqlalchemy_passes(node: NodeProcess) -> None:
    token = (node.home / "token").read_text()
    with headrace.connect(node.address, token=token) as connection:
        connection.execute("CREATE DATABASE IF NOT EXISTS test_schema")
    url = node.address.replace("http://", f"headrace://token:{token}@")
    options = ["-c", "pytest.ini", "-n0", "-q", "--dburi", url]
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "suite.py"],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
        cwd=SUITE,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
    )
    assert completed.returncode == 0, completed.stdout[-20_000:] + completed.stderr[-5_000:]
    passed = re.search(r"(\d+) passed", completed.stdout)
    assert passed is not None
    assert int(passed[1]) > 250
