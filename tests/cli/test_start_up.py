"""Modules that a command must not import, because it must start in less than 300 ms."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.scripted_node import ScriptedNode

SLOW_MODULES = {"pyspark", "py4j", "fastapi", "pyarrow", "pydantic", "pydantic_settings"}
SLOW_MODULES |= {"sqlalchemy", "sqlglot", "httpx", "rich", "asyncio", "pandas", "numpy", "uvicorn"}
SLOW_MODULES |= {"prompt_toolkit"}

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


def imported_modules(*arguments: str) -> set[str]:
    """Return the top-level modules that a command has imported."""
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(completed.stderr.rpartition("\n")[2].split())
