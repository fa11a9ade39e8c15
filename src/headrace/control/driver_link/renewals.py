"""Renewals of the leases of drivers: one at a time, or those of many drivers in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.control.context import NodeContext
from headrace.control.driver_link.expectations import ObserveBatch, StreamChecking
from headrace.control.driver_link.streams import apply_query_reports
from headrace.errors import LeaseLost
from headrace.model.messages import Renew, Renewed
from headrace.model.session import DriverLease
from headrace.store import catalog_intents, nodes, transactions
from headrace.store.database import Precedence
from headrace.store.sessions import lease_renewals
from headrace.store.statements import results


class Renewals:
    """Renews the leases of drivers."""

    def __init__(self, context: NodeContext, *, observe_batch: ObserveBatch | None = None) -> None:
        self._database = context.database
        self._checks = StreamChecking(context.alerts, observe_batch)
        self._seconds = context.lease_seconds

    def renew(self, lease: DriverLease, message: Renew) -> Renewed:
        """Renew the lease of a driver, and apply what it reports about its queries.

        Return the addresses of the live nodes, and the held results that are gone. Raise LeaseLost.
        """
        with self._database.write("link.renew", precedence=Precedence.LEASES) as tx:
            state = lease_renewals.renew(tx, lease, self._seconds, streams=message.streams)
            if state is None:
                raise LeaseLost(f"Epoch {lease.epoch} of session {lease.session_id} is superseded.")
            apply_query_reports(tx, lease, message.queries, self._checks)
            return Renewed(
                applied=True,
                release=results.find_released(tx, lease, message.held),
                nodes=nodes.addresses(tx),
                has_intents=(
                    catalog_intents.has_due(tx, lease.session_id)
                    or transactions.has_orphaned(tx, lease.session_id)
                ),
            )

    def renew_all(self, messages: Mapping[DriverLease, Renew]) -> dict[DriverLease, Renewed]:
        """Renew the leases of drivers whose renewals are `is_plain`, in one transaction.

        The leases that are not in the answer are lost, or another transaction works on their
        sessions at the moment: `renew` finds out which.
        """
        leases = list(messages)
        with self._database.write("link.renew_all", precedence=Precedence.LEASES) as tx:
            renewed = lease_renewals.renew_all(tx, leases, self._seconds)
            if not renewed:
                return {}
            addresses = nodes.addresses(tx)
            session_ids = [lease.session_id for lease in renewed]
            due = catalog_intents.find_due(tx, session_ids)
            due |= transactions.find_recovering(tx, session_ids)
        return {
            lease: Renewed(applied=True, nodes=addresses, has_intents=lease.session_id in due)
            for lease in renewed
        }


def is_plain(message: Renew) -> bool:
    """Return whether a renewal reports nothing."""
    return not (message.streams or message.queries or message.held)
