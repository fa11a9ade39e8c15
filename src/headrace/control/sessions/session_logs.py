"""The logs of drivers: each is a file of the node that launched the driver; any node returns it.

The log of an ended session is also in the results location.
"""

from __future__ import annotations

from headrace.client.http import Client
from headrace.control.caller import Caller
from headrace.control.context import NodeContext
from headrace.control.sessions.kept_logs import kept_log_name
from headrace.control.sessions.log_files import read_log
from headrace.control.sessions.opening import get_session, resolve_session
from headrace.errors import NodeUnreachable, Unauthorized
from headrace.model.node import NodeRecord
from headrace.store import nodes

_FORWARD_SECONDS = 5.0
"""How long a node that does not respond is asked for a log."""


class SessionLogs:
    """Reads the logs of the drivers of all callers."""

    def __init__(self, context: NodeContext, *, token: str | None) -> None:
        """Create a reader.

        Args:
            token: Token of the nodes of the cluster; None: they need none.
        """
        self._database = context.database
        self._node_id = context.node_id
        self._layout = context.settings.layout
        self._results_location = context.settings.results_location
        self._token = token

    def read(self, caller: Caller, name_or_id: str, tail: int, *, forward: bool = True) -> str:
        """Return the last `tail` bytes of the driver's log; empty before the driver has started.

        Secrets that a line names are redacted.

        Args:
            forward: Whether another node is asked for the log of a driver that it has launched.

        Raises:
            SessionNotFound: The caller has no such session.
            ResultsUnavailable: The file is not a regular file, or cannot be read.
            NodeUnreachable: The node that has the log does not respond.
        """
        with self._database.read() as tx:
            session = get_session(tx, resolve_session(tx, caller.owner, name_or_id))
            launched_by = session.launched_by
            is_foreign = launched_by is not None and launched_by != self._node_id
            other = nodes.get(tx, launched_by) if launched_by and is_foreign and forward else None
            is_live = other is not None and nodes.is_live(tx, other.id)
        if other is not None and is_live:
            return self._fetch(other, session.id, tail)
        file = self._layout.session_log(session.id)
        content = read_log(str(file.parent), file.name, tail)
        if content is None and is_foreign:
            content = read_log(self._results_location, kept_log_name(session.id), tail)
        if content is None and other is not None:
            raise NodeUnreachable(
                f"The log of the session {session.id} is on the host of the node {other.id}"
                f" ({other.address}), which is not live.",
                hint="The node copies the logs of ended sessions to the results location.",
            )
        return (content or b"").decode(errors="replace")

    def _fetch(self, node: NodeRecord, session_id: str, tail: int) -> str:
        try:
            with Client(node.address, self._token, retry_seconds=_FORWARD_SECONDS) as client:
                return client.session_log(session_id, tail, forward=False)
        except Unauthorized:
            raise NodeUnreachable(
                f"The node {node.id} at {node.address} has the log of the session {session_id}, and"
                " does not accept the token of this node.",
                hint="Give all nodes of the cluster the same token (HEADRACE_TOKEN).",
            ) from None
