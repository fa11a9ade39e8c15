"""The pages of docs/reference/ equal what scripts/generate_reference.py generates from the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "generate_reference.py"


def test_the_reference_pages_are_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, SCRIPT, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
