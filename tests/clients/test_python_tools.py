"""pandas, polars, DuckDB, ibis and SQLAlchemy in a Python of their own, with a node and Spark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.client_environments import ROOT, make_client
from tests.support.node import NodeProcess

pytestmark = pytest.mark.spark
CHECKS = Path(__file__).parent / "python_tools" / "checks.py"
REQUIREMENTS = ("polars==2.1.0", "pandas==3.1.1", "duckdb==2.0.1", "ibis-framework==12.0.0")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path_factory.mktemp("python_tools") / "home")
    yield process
    process.close()


@pytest.mark.timeout(600)
def test_the_tools_of_python_read_and_write_by_a_node(node: NodeProcess, tmp_path: Path) -> None:
    python = make_client("python-tools", *REQUIREMENTS, "pytest", "-e", ".[sqlalchemy]")
    environment = {
        **{
            key: os.environ[key] for key in os.environ if not key.startswith(("HEADRACE", "PYTEST"))
        },
        "HEADRACE_SERVER": node.address,
        "HEADRACE_TOKEN": (node.home / "token").read_text(),
        "PYTHONPATH": str(ROOT / "src"),
    }
    options = ["-q", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-W", "error"]
    completed = subprocess.run(
        [python, "-m", "pytest", *options, str(CHECKS)],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
