"""The program: its help, and standard streams that its caller has closed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from headrace.cli.main import headrace

COLUMNS = 80


def list_summaries(group: click.Group, path: str) -> Iterator[tuple[str, str]]:
    """Yield each command below a group with the summary that the help of its group shows."""
    names = list(group.commands)
    width = COLUMNS - 6 - max(map(len, names))
    for name, command in group.commands.items():
        yield f"{path} {name}", command.get_short_help_str(width)
        if isinstance(command, click.Group):
            yield from list_summaries(command, f"{path} {name}")


@pytest.mark.parametrize(
    ("command", "summary"),
    [pytest.param(*row, id=row[0]) for row in list_summaries(headrace, "headrace")],
)
def test_the_help_on_a_terminal_of_80_columns_shows_whole_summaries(
    command: str, summary: str
) -> None:
    assert summary.endswith("."), command
    assert not summary.endswith("..."), command


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
