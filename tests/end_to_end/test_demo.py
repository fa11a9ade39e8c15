"""Tests of `make demo`, which the README describes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import processes_of

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_demo_prints_its_results_and_leaves_no_process_running(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, DEMO],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    for text in ("336776", "ExpressJet", "1: below 1 mile", "CESSNA", "launched", "took-place"):
        assert text in run.stdout
    command = run.stdout.strip().rpartition("\n")[2]
    lines = run.stdout.splitlines()
    assert [line for line in lines if len(line) > 80 and line.strip() != command.strip()] == []
    assert not processes_of(tmp_path / ".headrace-demo")
