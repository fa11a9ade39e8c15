"""Tickets and tokens of held results, on which driver and node agree.

A ticket names a result by its statement, or one chunk of it: `st_…` or `st_…/3`. A token opens one
result. Only the node and the driver can make it: it is signed with the secret of the driver.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

READ_CHUNK = "headrace.read_chunk"
"""Action with a ticket as its body. It returns a chunk as an Arrow IPC stream, cut into bodies.

Flight's own client parses the batches of `DoGet` before the node could check them: one that is
compressed could exhaust the memory of the node. The bodies of an action are plain bytes.
"""
COUNT_ROWS = "headrace.count_rows"
"""Action with the ticket of a result. It returns a JSON list: the number of rows of each chunk."""
MAX_BODY_BYTES = 1 << 20
"""Largest body of an action."""
AUTHORIZATION = "authorization"
"""Header with `Bearer` and the token."""
_TICKET = re.compile(rb"(st_[0-9a-f]{32})(?:/([0-9]{1,9}))?")
_TOKEN = re.compile(r"(st_[0-9a-f]{32})\.[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ResultTicket:
    """A held result, or one chunk of it."""

    statement_id: str
    chunk: int | None = None
    """Number of the chunk; None: all rows."""

    @classmethod
    def parse(cls, content: bytes) -> ResultTicket | None:
        """Return the ticket with this content, or None if it is not a ticket."""
        match = _TICKET.fullmatch(content)
        if match is None:
            return None
        return cls(match[1].decode(), None if match[2] is None else int(match[2]))

    def to_bytes(self) -> bytes:
        """Return the content of the ticket."""
        suffix = "" if self.chunk is None else f"/{self.chunk}"
        return f"{self.statement_id}{suffix}".encode()


def make_token(secret: str, statement_id: str) -> str:
    """Return the token that opens the result of a statement."""
    return f"{statement_id}.{_sign(secret, statement_id)}"


def read_token(secret: str, token: str) -> str | None:
    """Return the statement whose result a token opens, or None if the token is not valid."""
    match = _TOKEN.fullmatch(token)
    if match is None or not hmac.compare_digest(make_token(secret, match[1]), token):
        return None
    return match[1]


def _sign(secret: str, statement_id: str) -> str:
    return hmac.new(secret.encode(), statement_id.encode(), hashlib.sha256).hexdigest()
