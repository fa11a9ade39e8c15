"""The program with standard streams that its caller has closed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("command", ["--version", "status", "statement list"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "> >(true)", "2> >(true)"])
def test_a_closed_stream_ends_no_command_in_a_traceback(
    tmp_path: Path, command: str, closed: str
) -> None:
    program = f"{shlex.quote(sys.executable)} -m headrace.cli {command}"
    script = f"{program} {closed}"
    run = subprocess.run(
        ["/bin/bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "Traceback" not in run.stdout + run.stderr
    assert run.returncode in {0, 1, 3, 141}
