"""Results that drivers hold in memory: any node reads them, directly or through another node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.client.http import Client
from headrace.client.tls import ClientTls
from headrace.control.context import NodeContext
from headrace.control.host.process_identity import HostIdentity, this_host
from headrace.errors import (
    ClientCertificateMissing,
    InvalidResult,
    NodeUnreachable,
    Unauthorized,
)
from headrace.model.lifecycle import SessionState
from headrace.model.node import NodeRecord
from headrace.model.result import GoneReason, ResultHolder, ResultInfo
from headrace.model.session import Session
from headrace.model.statement import Statement
from headrace.results.flight_tickets import ResultTicket, make_token
from headrace.results.held_rows import FetchedRows, HeldRows
from headrace.results.read_limits import BufferLimit
from headrace.results.reader import MAX_PAGE_ROWS, RowRange, Rows, build_gone
from headrace.store import nodes
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.statements import results

_FORWARD_SECONDS = 5.0
"""How long a node that does not respond is asked for rows."""
_FORWARDED_SECONDS = 120.0
"""Longest time without a byte from the other node, whose read waits for others. It is longer than a
read of this node may take: the error then is not that the other node is unreachable."""
_REASONS = {
    SessionState.CLOSING: GoneReason.SESSION_CLOSED,
    SessionState.DEAD: GoneReason.SESSION_CLOSED,
    SessionState.FAILED: GoneReason.SESSION_FAILED,
}


@dataclass(frozen=True, slots=True)
class FlightOffer:
    """The place from which a Flight client reads a result directly."""

    location: str
    ticket: str
    token: str


class HeldResultReader:
    """Finds the holders of results."""

    def __init__(
        self, context: NodeContext, *, token: str | None, host: HostIdentity | None = None
    ) -> None:
        """Create a reader.

        Args:
            token: Token of the nodes of the cluster; None: they need none.
            host: Host of this node; None: the host of this process.
        """
        self._database = context.database
        self._node_id = context.node_id
        self._token = token
        self._tls = context.client_tls
        self._host = host or this_host()
        self._buffers = BufferLimit()

    def open(self, statement: Statement, *, forward: bool = True) -> Rows:
        """Return the rows of a held result.

        Args:
            forward: Whether the node on the host of the driver is asked for rows that only that
                host reaches.

        Raises:
            ResultGone: The holder is gone.
            InvalidResult: The schema is not valid.
            NodeUnreachable: The node on the host of the driver does not respond.
        """
        info = _require_held(statement)
        assert info.holder is not None
        with self._database.read() as tx:
            session = sessions.get(tx, info.holder.session_id)
            secret = results.flight_secret_of(tx, info.holder)
            other = None
            if session is not None and not self._is_reachable(info.holder, session):
                other = self._find_neighbour(tx, session)
        if session is None or secret is None:
            # An older node has ended the holder, and does not know its results.
            state = SessionState.DEAD if session is None else session.state
            reason = _REASONS.get(state, GoneReason.DRIVER_LOST)
            raise build_gone(info.model_copy(update={"gone_reason": reason}))
        if self._is_reachable(info.holder, session):
            return HeldRows(info, statement.id, secret, buffers=self._buffers)
        if not forward:
            raise NodeUnreachable(
                f"The driver of the session {session.id} holds the rows on another host than this"
                " node.",
                hint="Ask a node on the host of the driver, or leave out forward=false.",
            )
        if other is None:
            raise NodeUnreachable(
                f"The driver of the session {session.id} holds the rows on another host, and no"
                " live node is there.",
                hint="Try again when a node of that host is back, or submit the statement again.",
            )
        return _ForwardedRows(info, statement.id, other, self._token, self._tls, self._buffers)

    def find_offer(self, statement: Statement, *, is_local: bool) -> FlightOffer | None:
        """Return the place at which a client reads a result directly; None if there is none.

        Args:
            is_local: Whether the client is on the host of this node.
        """
        info = statement.result
        if info is None or info.gone or info.holder is None:
            return None
        with self._database.read() as tx:
            session = sessions.get(tx, info.holder.session_id)
            secret = results.flight_secret_of(tx, info.holder)
        if session is None or secret is None:
            return None
        if info.holder.is_on_loopback and not (
            is_local and self._is_reachable(info.holder, session)
        ):
            return None
        return FlightOffer(
            location=f"grpc://{info.holder.endpoint}",
            ticket=ResultTicket(statement.id).to_bytes().decode(),
            token=make_token(secret, statement.id),
        )

    def _is_reachable(self, holder: ResultHolder, session: Session) -> bool:
        """Return whether this node can connect to the endpoint of a holder.

        Loopback means another place on another host.
        """
        if not holder.is_on_loopback:
            return True
        if session.host is None:
            return False
        return HostIdentity.from_record(session.host).shares_loopback_with(self._host)

    def _find_neighbour(self, tx: Tx, session: Session) -> NodeRecord | None:
        """Return a live node on the host of a driver: if possible, the one that launched it."""
        if session.host is None:
            return None
        host = HostIdentity.from_record(session.host)
        neighbours = [
            node
            for node in nodes.page_live(tx)
            if node.id != self._node_id
            if node.host and HostIdentity.from_record(node.host).shares_loopback_with(host)
        ]
        return min(neighbours, key=lambda node: node.id != session.launched_by, default=None)


class _ForwardedRows(FetchedRows):
    """Rows that another node reads from a driver of its host."""

    has_real_names = True

    def __init__(
        self,
        info: ResultInfo,
        statement_id: str,
        node: NodeRecord,
        token: str | None,
        tls: ClientTls,
        buffers: BufferLimit,
    ) -> None:
        super().__init__(info, buffers)
        self._statement_id = statement_id
        self._node = node
        self._token = token
        self._tls = tls

    def fetch(self, number: int) -> Iterator[bytes]:
        return self._download({"chunk": number})

    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        end = min(rows.end, self.row_count)
        # One read has about as many rows as a chunk, because its bytes are kept in memory.
        step = min(-(-self.row_count // self.chunks), MAX_PAGE_ROWS)
        for offset in range(rows.offset, end, max(1, step)):
            count = min(step, end - offset)
            blocks = self._download({"offset": offset, "limit": count})
            for batch in self._read(blocks, count):
                count -= batch.num_rows
                yield batch
            if count:
                raise InvalidResult("The driver has fewer rows than it has reported.")

    def _download(self, selection: Mapping[str, int]) -> Iterator[bytes]:
        node = self._node
        try:
            with Client(
                node.address, self._token, tls=self._tls, retry_seconds=_FORWARD_SECONDS
            ) as client:
                yield from client.download_held(
                    self._statement_id, selection, timeout=_FORWARDED_SECONDS
                )
        except (ClientCertificateMissing, Unauthorized):
            raise NodeUnreachable(
                f"The node {node.id} at {node.address} reaches the rows of the statement"
                f" {self._statement_id}, and does not accept the token or the certificate of this"
                " node.",
                hint="Give all nodes of the cluster the same token (HEADRACE_TOKEN), and with"
                " tls.client_ca also a tls.client_cert.",
            ) from None


def _require_held(statement: Statement) -> ResultInfo:
    info = statement.result
    assert info is not None
    if info.gone:
        raise build_gone(info)
    return info
