"""The service for connections: clients of a database open many, and expect to share a driver.

A connection has its own current database, settings, temporary views and variables. Its statements
run one after the other, in the pool driver of its owner, and those of other connections run beside
them. The store has the state of a connection after each statement, so that it survives its driver.
"""

from __future__ import annotations

import time

from headrace.control.conf import check_connection_conf
from headrace.control.context import NodeContext
from headrace.control.limits import check_connections, describe_owner
from headrace.control.policy import (
    Action,
    Caller,
    check,
    listed_owners,
    require_creator,
    resolve_owner,
)
from headrace.errors import ConnectionNotFound, NotPermitted, UpgradeUnfinished
from headrace.model.connection import Connection, ConnectionSpec
from headrace.model.ids import looks_like_id, seconds_of_id
from headrace.model.messages import WITH_CONNECTIONS
from headrace.store import nodes
from headrace.store.database import Tx
from headrace.store.sessions import connections


class ClientConnections:
    """Connections of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def open(
        self, caller: Caller, spec: ConnectionSpec, *, protocol: str, owner: str | None = None
    ) -> Connection:
        """Store a connection and return it. No driver starts before its first statement.

        Args:
            protocol: Front end by which the client has connected.
            owner: Owner of the connection, as in `resolve_owner`; default: the caller.

        Raises:
            NotPermitted: The caller may not run statements, or not for this owner.
            InvalidSetting, SettingDenied: For a key in `conf`.
            TooManyConnections: The owner has as many open connections as it may.
            UpgradeUnfinished: A node of an older version runs.
        """
        require_creator(caller, "connections")
        check_connection_conf(spec, self._settings.conf_policy)
        owner = resolve_owner(caller, owner)
        with self._database.write("connection.open") as tx:
            return self._insert(tx, caller, owner, protocol, spec)

    def open_named(self, caller: Caller, connection_id: str, *, protocol: str) -> Connection:
        """Return the open connection with an id that a node gave its client; open a new one.

        A node offers an id to every client that connects, and stores nothing before the client
        needs it.

        Raises:
            ConnectionNotFound: The connection is closed or belongs to another owner, or the id is
                older than connections without use become.
            NotPermitted: The caller may not run statements.
            TooManyConnections, UpgradeUnfinished: As `open`, for a new connection.
        """
        require_creator(caller, "connections")
        oldest = time.time() - self._settings.sessions.connection_idle_timeout.total_seconds()
        with self._database.write("connection.open") as tx:
            is_fresh = looks_like_id(connection_id) and seconds_of_id(connection_id) > oldest
            if is_fresh and connections.get(tx, connection_id) is None:
                self._insert(tx, caller, caller.owner, protocol, ConnectionSpec(), connection_id)
            return find_own_connection(tx, caller, connection_id)

    def page(
        self, caller: Caller, *, before: str | None, limit: int, all_owners: bool = False
    ) -> list[Connection]:
        """Return open connections, newest first.

        Args:
            before: Only connections older than the one with this id.
            limit: Largest number of connections.
            all_owners: Whether to list those of all owners whose objects the caller may read, and
                not only those of the caller and its groups.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            return connections.page_open(tx, owners, before=before, limit=limit)

    def get(self, caller: Caller, connection_id: str) -> Connection:
        """Return an open connection of the caller. Raise ConnectionNotFound."""
        with self._database.read() as tx:
            return find_connection(tx, caller, connection_id)

    def close(self, caller: Caller, connection_id: str) -> None:
        """Close a connection. Its statements run on. Raise ConnectionNotFound."""
        with self._database.write("connection.close") as tx:
            connections.close(tx, find_connection(tx, caller, connection_id, Action.CHANGE).id)

    def _insert(
        self,
        tx: Tx,
        caller: Caller,
        owner: str,
        protocol: str,
        spec: ConnectionSpec,
        connection_id: str | None = None,
    ) -> Connection:
        older = nodes.find_older(tx, WITH_CONNECTIONS)
        if older is not None:
            raise UpgradeUnfinished(
                f"The node {older} has an older version, which does not know connections.",
                hint="Connect again when all nodes have been upgraded.",
            )
        check_connections(tx, self._settings, describe_owner(tx, self._settings, owner, caller))
        return connections.insert_connection(tx, owner, protocol, spec, connection_id=connection_id)


def build_closed_error(connection_id: str) -> ConnectionNotFound:
    """Build the error for a connection that does not exist or is closed."""
    return ConnectionNotFound(
        f"There is no open connection {connection_id[:64]}.", hint="Connect again."
    )


def find_connection(
    tx: Tx, caller: Caller, connection_id: str, action: Action = Action.READ
) -> Connection:
    """Return an open connection on which the caller may act.

    Raises:
        ConnectionNotFound: There is none that the caller may read.
        NotPermitted: The caller may read it, and do no more.
    """
    found = connections.get(tx, connection_id) if looks_like_id(connection_id) else None
    is_open = found is not None and found.ended_at is None
    return check(caller, action, found if is_open else None, build_closed_error(connection_id))


def find_own_connection(tx: Tx, caller: Caller, connection_id: str) -> Connection:
    """Return an open connection in which the caller may run statements.

    Raise as `find_connection`: not even an administrator runs SQL in the connection of another.
    """
    found = find_connection(tx, caller, connection_id, Action.CHANGE)
    if found.owner not in caller.owners:
        raise NotPermitted(
            f"Connection {found.id} belongs to another owner: it runs the statements of its owner"
            " only.",
            hint="Connect yourself.",
        )
    return found
