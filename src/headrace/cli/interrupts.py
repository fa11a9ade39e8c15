"""Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """The user wants out. No Exception, so that nothing handles it by accident."""


class Interrupts:
    """While open, turns the signals into Interrupted where the code says it may stop.

    The first signal is noted, and raised only inside `stoppable()` or at its begin: a submit that
    is under way completes, so that there is an id to cancel. The second is raised where it strikes.
    """

    def __init__(self, told: Callable[[], None] = lambda: None) -> None:
        self._told = told
        self._count = 0
        self._stoppable = False
        self._former: dict[int, Any] = {}

    @property
    def seen(self) -> bool:
        return self._count > 0

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._former[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Inside, the first signal raises Interrupted; so does one that came before."""
        self._stoppable = True
        try:
            if self._count == 1:
                raise Interrupted
            yield
        finally:
            self._stoppable = False

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._count += 1
        if self._count == 1:
            self._told()
        if self._count > 1 or self._stoppable:
            raise Interrupted
