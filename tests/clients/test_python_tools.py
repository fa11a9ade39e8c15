"""Tools of Python, each set in a Python of its own, with a node and Spark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.client_environments import ROOT, make_client
from tests.support.node import NodeProcess

pytestmark = [pytest.mark.clients, pytest.mark.spark, pytest.mark.timeout(900)]
CHECKS = Path(__file__).parent / "python_tools"
TOOLS = ("polars==2.1.0", "pandas==3.1.1", "duckdb==2.0.1", "ibis-framework==12.0.0")
# Superset does not limit two packages whose newer versions it cannot use.
SUPERSET = ("apache-superset==6.1.0", "flask-caching==2.3.1", "cachetools")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path_factory.mktemp("python_tools") / "home")
    yield process
    process.close()


def run_checks(python: Path, file: str, node: NodeProcess, folder: Path, **variables: str) -> None:
    """Run a file of checks by pytest in another Python. Fail with its output."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
        "HEADRACE_SERVER": node.address,
        "HEADRACE_TOKEN": (node.home / "token").read_text(),
        "PYTHONPATH": str(ROOT / "src"),
        **variables,
    }
    options = [
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
        "-p",
        "no:cacheprovider",
        "--noconftest",
    ]
    completed = subprocess.run(
        [python, "-m", "pytest", *options, str(CHECKS / file)],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_pandas_polars_duckdb_and_ibis_read_and_write(node: NodeProcess, tmp_path: Path) -> None:
    # `packaging` is what ibis needs without one of its own backends.
    python = make_client("python-tools", *TOOLS, "packaging", "pytest", "-e", ".[sqlalchemy]")
    run_checks(python, "checks.py", node, tmp_path)


def test_superset_lists_queries_and_stops(node: NodeProcess, tmp_path: Path) -> None:
    # It has SQLAlchemy 1.4 and an old PyArrow, so that no extra of Headrace fits.
    python = make_client("superset", *SUPERSET, "pytest", "-e", ".")
    config = tmp_path / "superset_config.py"
    cache = {"CACHE_TYPE": "SimpleCache"}
    config.write_text(
        f"SECRET_KEY = 'of the test'\n"
        f"SQLALCHEMY_DATABASE_URI = 'sqlite:///{tmp_path}/superset.db'\n"
        f"FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {cache}\n"
    )
    run_checks(python, "superset_checks.py", node, tmp_path, SUPERSET_CONFIG_PATH=str(config))
