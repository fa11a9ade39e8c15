"""Modules that a command must not import, because it must start in less than 300 ms."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.scripted_node import ScriptedNode

SLOW_MODULES = {"pyspark", "py4j", "fastapi", "pyarrow", "pydantic", "pydantic_settings"}
SLOW_MODULES |= {"sqlalchemy", "sqlglot", "httpx", "rich", "asyncio", "pandas", "numpy", "uvicorn"}
SLOW_MODULES |= {"prompt_toolkit", "pygments"}

_PROGRAM = """
import sys
from headrace.cli.main import headrace
try:
    headrace(sys.argv[1:])
finally:
    sys.stderr.write("\\n" + " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["sql", "--help"], ["shell", "--help"]]
)
def test_help_imports_no_slow_module(arguments: list[str]) -> None:
    assert not SLOW_MODULES & imported_modules(*arguments)


def test_running_a_script_imports_no_slow_module(node: ScriptedNode) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    assert not SLOW_MODULES & imported_modules(
        "sql", "SELECT 1; SELECT 2", "--server", node.address
    )
    assert len(node.statements) == 2


ROW_FORMATS = ["csv", "tsv", "json", "jsonl", "markdown", "table", "vertical"]


@pytest.mark.parametrize("format_", ROW_FORMATS)
def test_output_into_a_pipe_imports_no_slow_module(node: ScriptedNode, format_: str) -> None:
    columns = [("x", "int"), ("t", "timestamp"), ("s", "string")]
    row = [1, "2026-11-24T10:00:00.000000Z", "a"]
    node.on("SELECT 1", columns=columns, chunks=[[row, [None] * 3]], time_zone="Europe/Paris")
    arguments = ["sql", "SELECT 1", "--server", node.address, "--format", format_]
    assert not SLOW_MODULES & imported_modules(*arguments)


@pytest.mark.parametrize(
    "command",
    [
        ["statement", "list"],
        ["statement", "show", "last"],
        ["statement", "show", "st_0"],
        ["statement", "attach", "last"],
        ["session", "list"],
        ["node", "list"],
        ["job", "list", "--format", "table"],
    ],
    ids=" ".join,
)
def test_lists_in_a_pipe_import_no_slow_module(node: ScriptedNode, command: list[str]) -> None:
    node.finish(node._add_statement("SELECT 1", "se_x")["id"])
    node._add_session({})
    assert not SLOW_MODULES & imported_modules(*command, "--server", node.address)


def test_a_table_on_a_terminal_imports_rich_and_no_other_slow_module(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    terminal = PseudoTerminal(environment, columns=5000)
    program = [sys.executable, "-c", _PROGRAM]
    assert terminal.start("sql", "SELECT 1", "-q", program=program).wait(timeout=120) == 0
    terminal.close()
    imported = set(terminal.text.rstrip().rpartition("\n")[2].split())
    assert SLOW_MODULES & imported == {"rich"}


def imported_modules(*arguments: str) -> set[str]:
    """Return the top-level modules that a command has imported."""
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(completed.stderr.rpartition("\n")[2].split())
