"""Handling of Ctrl-C and SIGTERM: the first cancels in an orderly way, the second ends at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """The user wants to end the command.

    Interrupted is a BaseException, so that no handler of Exception catches it.
    """


class Interrupts:
    """Context manager that turns SIGINT and SIGTERM into Interrupted.

    The first signal raises Interrupted only inside `interruptible()`, or at its start. A submit
    that is in progress therefore completes and returns the id of the statement to cancel. The
    second signal raises Interrupted wherever it arrives.
    """

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        """Prepare the handlers; `on_first` is called at the first signal."""
        self._on_first = on_first
        self._count = 0
        self._interruptible = False
        self.terminated = False
        """Whether SIGTERM has arrived, which ends a shell too, and not only its statement."""
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first signal raise Interrupted inside the block, even if it arrived before."""
        self._interruptible = True
        try:
            if self._count == 1:
                raise Interrupted
            yield
        finally:
            self._interruptible = False

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._count += 1
        self.terminated |= number == signal.SIGTERM
        if self._count == 1:
            self._on_first()
        if self._count > 1 or self._interruptible:
            raise Interrupted
