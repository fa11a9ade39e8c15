"""Every finding of version 0.1-dev has a test that names it, with the mark `finding`."""

from __future__ import annotations

import re
from pathlib import Path

_TESTS = Path(__file__).parent
_MARK = re.compile(r'pytest\.mark\.finding\("([A-Z]\d+)"\)')
_FINDINGS = {
    *(f"S{number}" for number in range(1, 18)),  # trust
    *(f"B{number}" for number in range(1, 22)),  # truth
    *(f"U{number}" for number in range(1, 23)),  # the first hour
}


def test_every_finding_has_a_test() -> None:
    marked = {row for file in _TESTS.rglob("test_*.py") for row in _MARK.findall(file.read_text())}
    assert marked == _FINDINGS
