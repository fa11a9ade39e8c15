"""Webhooks, the events that they receive, and deliveries: messages that wait to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from headrace.config.alert_events import AlertEvent

OPENLINEAGE = "openlineage"
"""Endpoint of the deliveries for the receiver of OpenLineage events."""
CONFIGURED_PREFIX = "settings/"
"""Begin of the ids of webhooks that the settings of the nodes declare."""
MAX_JOBS = 100
"""Largest number of patterns of a webhook."""
RECENT_MESSAGES = 50
"""Number of the last messages that decide the state of an endpoint."""


class AttemptOutcome(StrEnum):
    """What follows an attempt to send a message."""

    SENT = "sent"
    POSTPONED = "postponed"
    FAILED = "failed"


class EndpointState(StrEnum):
    """How the last attempt to send a message to an endpoint has ended."""

    UNUSED = "unused"
    ARRIVING = "arriving"
    FAILING = "failing"


class DeliveryState(StrEnum):
    """Whether a message has arrived."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An HTTP endpoint that receives events."""

    id: str
    owner: str | None
    """None: the settings of the nodes declare it."""
    name: str
    url: str
    """It may have a token in its path: it is shown to no caller."""
    secret: str
    """Reference to the secret that signs the messages."""
    events: Sequence[str]
    jobs: Sequence[str] = ()
    """Patterns of names of jobs. Empty: all jobs, and events without a job."""
    owners: Sequence[str] = ()
    """Of a webhook of the settings: owners of the objects. Empty: all owners."""
    created_at: datetime | None = None

    @property
    def host(self) -> str:
        """Host of the URL."""
        return urlsplit(self.url).hostname or ""

    def receives(self, event: AlertEvent, *, owner: str | None, job: str | None) -> bool:
        """Return whether the webhook receives an event on an object of this owner."""
        if event not in self.events:
            return False
        if self.owner is not None and self.owner != owner:
            return False
        if self.owners and owner not in self.owners:
            return False
        if not self.jobs:
            return True
        return job is not None and any(fnmatchcase(job, pattern) for pattern in self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A message to send. The store holds at most one of an endpoint, a kind and a subject."""

    endpoint: str
    """Id of the webhook, or OPENLINEAGE."""
    owner: str | None
    kind: str
    subject: str
    """What the message is about, for example the id of a run."""
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message to an endpoint, as the store holds it."""

    id: str
    """Id of the message, which is the same in each attempt."""
    endpoint: str
    owner: str | None
    kind: str
    subject: str
    payload: str
    attempts: int
    last_error: str | None
    last_status: int | None
    """HTTP status of the last attempt; None: there was no response, or no attempt."""
    attempted_at: datetime | None
    """When the last attempt ended; None: none has."""
    created_at: datetime
    next_at: datetime | None
    """Time of the next attempt, or end of the lease of the present one; None: it has ended."""
    sent_at: datetime | None
    failed_at: datetime | None

    @property
    def state(self) -> DeliveryState:
        """Whether the message has arrived."""
        if self.sent_at is not None:
            return DeliveryState.SENT
        return DeliveryState.WAITING if self.failed_at is None else DeliveryState.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentDeliveries:
    """What became of the last messages to an endpoint."""

    waiting: int
    """Messages that wait to be sent, or to be sent again."""
    failed: int
    """Messages that are not sent any more."""
    last_sent_at: datetime | None
    """When the last message has arrived; None: none has."""
    last_failure_at: datetime | None
    """End of the last failed attempt to send a message that has not arrived; None: none."""
    last_error: str | None
    """Why that attempt has failed."""

    @property
    def state(self) -> EndpointState:
        """How the last attempt has ended."""
        sent, failed = self.last_sent_at, self.last_failure_at
        if failed is not None and (sent is None or sent < failed):
            return EndpointState.FAILING
        return EndpointState.UNUSED if sent is None else EndpointState.ARRIVING
