"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_FIRST, _LAST, _GROWTH = 0.02, 0.1, 1.2


def wait_until(
    condition: Callable[[], T], *, seconds: float = 60, what: str = "", every: float | None = None
) -> T:
    """Call `condition` until it returns a true value, and return it. Fail after `seconds`.

    The default pause between two calls grows, because most conditions ask a node or list all
    processes, which slows down the work that the test waits for.
    """
    deadline = time.monotonic() + seconds
    pause = every or _FIRST
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or condition}")
        time.sleep(pause)
        pause = every or min(pause * _GROWTH, _LAST)
    return value
