"""The format of the node's log: one record is one line, without control characters and secrets."""

from __future__ import annotations

import logging
from types import TracebackType

from headrace.grammar.masking import mask_text
from headrace.text.printable import escape_character, escape_controls


class EscapingFormatter(logging.Formatter):
    """Escapes control characters, because a message can contain text of users and drivers.

    A line feed in a message is escaped too: it could otherwise forge a record. Stack traces keep
    their lines.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides
        return "".join(map(escape_character, mask_text(super().formatMessage(record))))

    def formatException(  # noqa: N802 - overrides
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        return escape_controls(mask_text(super().formatException(ei)))
