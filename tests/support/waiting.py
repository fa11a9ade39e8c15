"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_FIRST, _LAST, _GROWTH = 0.02, 0.1, 1.2


def wait_until(
    condition: Callable[[], T], *, seconds: float = 30, what: str = "", every: float | None = None
) -> T:
    """Return the first true value of `condition`; fail the test when there is none in time.

    It is called every so many seconds; by default less often the longer it takes, since most
    conditions ask a node or look at all processes, which slows down what is waited for.
    """
    deadline = time.monotonic() + seconds
    pause = every or _FIRST
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or condition}")
        time.sleep(pause)
        pause = every or min(pause * _GROWTH, _LAST)
    return value
