"""Every finding of version 0.1-dev has a test that names it, with the mark `finding`."""

from __future__ import annotations

import re
from pathlib import Path

_TESTS = Path(__file__).parent
_MARK = re.compile(r'pytest\.mark\.finding\("([A-Z]\d+)"\)')
_FINDINGS = {
    *(f"S{number}" for number in range(1, 18)),  # trust
    *(f"B{number}" for number in range(1, 22)),  # truth
    *(f"U{number}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 13, 14, 20)),  # the first hour
    *(f"U{number}" for number in (15, 17, 19, 22)),  # installation, homes and paths
    *(f"U{number}" for number in (10, 11, 12)),  # the HTTP interface
}


def test_every_finding_has_a_test() -> None:
    marked = {row for file in _TESTS.rglob("test_*.py") for row in _MARK.findall(file.read_text())}
    assert marked == _FINDINGS
