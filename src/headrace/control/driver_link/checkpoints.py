"""The part of the link that concerns the markers of checkpoints."""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.control.driver_link.driver_lease import load_owned_view
from headrace.errors import InvalidRequest
from headrace.model.messages import FindMarked, MarkedQuery
from headrace.model.session import DriverLease
from headrace.store.streams import stream_queries


class CheckpointMarks:
    """Serves the call `find_marked`.

    A driver reads in a checkpoint which query has marked it. Only the store says whether that query
    is live: the driver, and every writer to the checkpoint, are strangers.
    """

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def find_marked(self, lease: DriverLease, message: FindMarked) -> MarkedQuery:
        """Return whether a marked query is live, and its name if the driver's owner may know it.

        Raises:
            LeaseLost: The driver no longer owns its session.
            InvalidRequest: The query that is to work on the checkpoint is not one of the session.
        """
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            own = stream_queries.get(tx, message.query_id)
            marked = stream_queries.get(tx, message.marked_id)
        if own is None or own.session_id != lease.session_id:
            raise InvalidRequest(f"{message.query_id} is no query of this session.")
        if marked is None or marked.ended_at is not None:
            return MarkedQuery(is_live=False)
        is_visible = marked.owner == own.owner
        return MarkedQuery(is_live=True, name=marked.qualified_name if is_visible else None)
