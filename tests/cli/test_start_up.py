"""What a command may not import, as it must start in a blink."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.scripted_node import ScriptedNode

HEAVY = {"pyspark", "py4j", "fastapi", "pyarrow", "pydantic", "pydantic_settings", "sqlalchemy"}
HEAVY |= {"sqlglot", "httpx", "rich", "asyncio", "pandas", "numpy", "uvicorn"}

_RUN = """
import sys
from headrace.cli.main import headrace
try:
    headrace(sys.argv[1:])
finally:
    sys.stderr.write("\\n" + " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["sql", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not HEAVY & modules(*arguments)


def test_nor_does_running_a_script(node: ScriptedNode) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    assert not HEAVY & modules("sql", "SELECT 1; SELECT 2", "--server", node.address)
    assert len(node.statements) == 2


def modules(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", _RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("\n")[2].split())
