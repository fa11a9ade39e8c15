"""The house rules that can be measured: sizes of files and functions, and who imports whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OTHERS = [
    file for room in ("tests", "benchmarks", "examples") for file in (ROOT / room).rglob("*.py")
]

LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 40


def test_no_file_outgrows_its_concept() -> None:
    sizes = {file: len(file.read_text().splitlines()) for file in [*SOURCES, *OTHERS]}

    assert {str(file): size for file, size in sizes.items() if size >= LINES_OF_A_FILE} == {}


def test_no_function_outgrows_a_screen() -> None:
    # A migration is the frozen list of a table's columns: nobody reads it for its logic.
    files = [file for file in SOURCES if "migrations" not in file.parts]
    long = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": size
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := body_lines(node)) >= LINES_OF_A_FUNCTION
    }

    assert long == {}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines behind the signature and the docstring."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not statements:
        return 0
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1


def test_no_room_is_called_utils() -> None:
    assert [file for file in SOURCES if file.stem in {"utils", "util", "helpers", "common"}] == []


def test_imports_go_downward_only() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
