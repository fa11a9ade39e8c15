"""A durable control plane for SQL on Apache Spark, and its interface for Python (PEP 249).

    with headrace.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ? + 1", [41])
        print(cursor.fetchall())

What the interface needs is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.async_dbapi import AsyncConnection
    from headrace.client.dbapi import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Connection,
        Cursor,
        DatabaseError,
        DataError,
        Date,
        DateFromTicks,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        ResultTruncated,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
        Warning,  # noqa: A004 - the name of PEP 249
    )
    from headrace.client.http import Client

__version__ = "0.1.0"
apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ResultTruncated",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "aconnect",
    "connect",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.client import dbapi  # noqa: PLC0415 - it is imported when it is used

    return getattr(dbapi, name)


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    catalog: str | None = None,
    database: str | None = None,
    conf: Mapping[str, str] | None = None,
    owner: str | None = None,
    tls_ca: str | PathLike[str] | None = None,
    tls_client_cert: str | PathLike[str] | None = None,
    tls_client_key: str | PathLike[str] | None = None,
    retry_seconds: float = 30.0,
) -> Connection:
    """Return a connection. A node is called when the connection is used.

    Args:
        url: URL of the node, for example `https://sql.example.com:8040`, or URLs of several nodes
            of one cluster, separated by commas. By default, the node that commands use:
            HEADRACE_SERVER, `server` in headrace.toml, or the node of this home, which is started
            if it does not run.
        token: Token; default: HEADRACE_TOKEN, the token of the home, or that of `headrace login`.
        user: User of a directory, with its `password`, in place of a token.
        catalog: Current catalog at the start; default: Spark's own.
        database: Current database at the start.
        conf: Spark configuration of the connection.
        owner: `group:NAME`, to run as a group of the user.
        tls_ca: File with the CAs of the nodes; default: HEADRACE_TLS__CA, or those of the system.
        tls_client_cert: Certificate for nodes that require one, with its `tls_client_key`.
        retry_seconds: How long requests are repeated while no node responds.

    Raises:
        ProgrammingError: The URL is not valid.
        InterfaceError: The arguments contradict each other.
    """
    from headrace.client.dbapi import Connection, InterfaceError  # noqa: PLC0415
    from headrace.client.dbapi_errors import translated  # noqa: PLC0415
    from headrace.client.transport import PasswordCredentials, check_addresses  # noqa: PLC0415

    if url is not None and url != "embedded":
        with translated():
            check_addresses(url)
    credentials = None
    if user is not None or password is not None:
        if user is None or password is None or token is not None:
            raise InterfaceError(
                "A user needs a password, and no token.", code="invalid_credentials"
            )
        credentials = PasswordCredentials(user, password)
    files = {"ca": tls_ca, "client_cert": tls_client_cert, "client_key": tls_client_key}
    flags = {f"tls.{key}": str(file) for key, file in files.items() if file is not None}

    def find_client() -> Client:
        from headrace.cli.support.config import load_config  # noqa: PLC0415 - it is slow
        from headrace.cli.support.discovery import find_node  # noqa: PLC0415 - it is slow

        config = load_config({"server": url, "token": token, **flags})
        return find_node(
            config, opens_pool=True, credentials=credentials, retry_seconds=retry_seconds
        )

    spec = {"catalog": catalog, "database": database, "conf": conf and dict(conf), "owner": owner}
    return Connection(find_client, spec)


def aconnect(url: str | None = None, **options: Any) -> AsyncConnection:
    """Return a connection for asyncio, with the arguments of `connect`."""
    from headrace.client.async_dbapi import AsyncConnection  # noqa: PLC0415

    return AsyncConnection(connect(url, **options))
