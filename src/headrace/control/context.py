"""The context that all parts of a node share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from headrace.client.tls import ClientTls
from headrace.config.settings import Settings
from headrace.control.audit import Audit
from headrace.control.outbox.alerts import Alerts
from headrace.control.secret_values import Secrets
from headrace.store.database import Database


@dataclass(frozen=True)
class NodeContext:
    """The store, the settings and the identity of one node."""

    database: Database
    settings: Settings
    node_id: str
    address: str
    """URL at which drivers and other nodes reach this node."""
    audit: Audit = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Create the audit, which all parts of the node share."""
        audit = Audit(self.database, self.settings.audit, self.node_id)
        object.__setattr__(self, "audit", audit)

    @property
    def client_tls(self) -> ClientTls:
        """How this node verifies other nodes."""
        tls = self.settings.tls
        return ClientTls(tls.ca, tls.client_cert, tls.client_key)

    @cached_property
    def secrets(self) -> Secrets:
        """The values of secrets."""
        return Secrets(self.settings)

    @cached_property
    def alerts(self) -> Alerts:
        """What inserts the messages to webhooks."""
        return Alerts(self.settings)

    @property
    def lease_seconds(self) -> float:
        """Duration of a lease after a renewal."""
        return self.settings.lease.duration.total_seconds()

    @property
    def retention_seconds(self) -> float:
        """Time for which the rows of a result are kept."""
        return self.settings.results.retention.total_seconds()

    @property
    def view_grace_seconds(self) -> float:
        """Time for which a replaced generation of a materialized view stays."""
        return self.settings.materialized_views.grace.total_seconds()
