from __future__ import annotations

import logging
import sys

import pytest

from headrace.frontends.process import EscapingFormatter


@pytest.mark.finding("S14")
def test_a_record_is_one_line_without_control_sequences() -> None:
    try:
        raise ValueError("bad \x1b[2J value")
    except ValueError:
        failure = sys.exc_info()
    record = logging.LogRecord(
        "headrace", logging.ERROR, __file__, 1, "failed: %s", ("a\x1b[31m\nforged",), failure
    )
    line, *trace = EscapingFormatter().format(record).splitlines()
    assert line.endswith("ERROR headrace failed: a\\x1b[31m\\nforged")
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "ValueError: bad \\x1b[2J value"
