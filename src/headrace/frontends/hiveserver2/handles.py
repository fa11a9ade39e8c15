"""Handles of HiveServer2: they name a session or a statement, so that any node knows them.

A handle is no secret: each call has the credentials of its caller, who must own what it names.
"""

from __future__ import annotations

import secrets
from enum import IntFlag
from typing import Any, NamedTuple

from headrace.errors import NotFound
from headrace.frontends.hiveserver2.wire import load_protocol

_GUID_BYTES = 16
_NUMBERS = 4
"""Numbers in a handle, besides the id: see `Handle`."""
_MARK = b"headrace"
_SESSION, _STATEMENT = "cn_", "st_"
_NO_STATEMENT = _STATEMENT + "0" * _GUID_BYTES
"""Begin of the ids in the handles of calls that need no statement."""


class UnknownHandle(NotFound):
    """The handle names nothing of this server."""

    code = "unknown_handle"


class ClientOption(IntFlag):
    """What a client has asked for when it opened its session. Handles have them as numbers."""

    NONE = 0
    JOIN = 1
    """A statement that runs already, with the same text, is joined instead of started again."""
    HIVE_SHOW = 2
    """SHOW TABLES and the like return Hive's columns."""
    ARROW = 4
    """Rows travel as Arrow, in the way of Kyuubi's JDBC driver."""


class Handle(NamedTuple):
    """What a handle names, and what the client has said when it was made."""

    id: str
    version: int
    """Version of the protocol that the client speaks; 0 is the first."""
    listing: int = 0
    """Number of the call for metadata; 0: a statement of the client."""
    types: int = 0
    """Types of tables that such a call asks for."""
    options: int = ClientOption.NONE

    @property
    def has_statement(self) -> bool:
        """Whether a statement stands behind it."""
        return not self.id.startswith(_NO_STATEMENT)


def make_id_without_statement() -> str:
    """Return an id for the handle of a call that needs no statement.

    Each call has its own: the node that has answered it keeps the position of its client.
    """
    return _NO_STATEMENT + secrets.token_hex(_GUID_BYTES // 2)


def session_handle(handle: Handle) -> Any:
    """Return the `TSessionHandle` of a session."""
    return load_protocol().TSessionHandle(_identify(handle, _SESSION))


def operation_handle(
    handle: Handle, kind: int, *, has_rows: bool, modified_rows: int | None = None
) -> Any:
    """Return the `TOperationHandle` of a statement."""
    return load_protocol().TOperationHandle(
        operationId=_identify(handle, _STATEMENT),
        operationType=kind,
        hasResultSet=has_rows,
        modifiedRowCount=None if modified_rows is None else float(modified_rows),
    )


def read_session(handle: Any) -> Handle:
    """Return what a `TSessionHandle` names. Raise UnknownHandle."""
    return _read(None if handle is None else handle.sessionId, _SESSION)


def read_operation(handle: Any) -> Handle:
    """Return what a `TOperationHandle` names. Raise UnknownHandle."""
    return _read(None if handle is None else handle.operationId, _STATEMENT)


def _identify(handle: Handle, prefix: str) -> Any:
    guid = bytes.fromhex(handle.id.removeprefix(prefix))
    secret = (_MARK + bytes(handle[1:])).ljust(_GUID_BYTES, b"\0")
    return load_protocol().THandleIdentifier(guid=guid, secret=secret)


def _read(identifier: Any, prefix: str) -> Handle:
    guid, secret = (b"", b"") if identifier is None else (identifier.guid, identifier.secret)
    if len(guid) != _GUID_BYTES or not secret.startswith(_MARK) or len(secret) != _GUID_BYTES:
        raise UnknownHandle("The handle is not one that this server has given.")
    return Handle(prefix + guid.hex(), *secret[len(_MARK) : len(_MARK) + _NUMBERS])
