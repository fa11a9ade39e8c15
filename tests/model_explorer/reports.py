"""Reports of drivers that a network repeats, delays and reorders, and what they may change.

A driver sends a report again until a node answers. A node that is frozen, or a slow connection, can
deliver an earlier copy at any later time, also after the end of the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.model_explorer.store import Rows, tables_of

from headrace.control.driver_link.service import DriverLinkService
from headrace.model.messages import (
    Acknowledged,
    BeginGeneration,
    Ended,
    Generation,
    Hello,
    Message,
    Poll,
    Renew,
    Renewed,
    Started,
    Transact,
    Transacted,
)
from headrace.model.session import DriverLease

# A late renewal is a renewal: it extends the lease of a driver that has not been superseded.
_RENEWED = {"lease_until", "last_update_time", "last_used_at", "streams"}


class Held(BaseException):
    """A report has not arrived. The driver sends it again."""


@dataclass(frozen=True)
class Sent:
    """A report that a driver has sent."""

    epoch: int
    call: str
    message: Message
    delivered: bool = False
    overtaken: bool = False
    """Whether a later report about the same thing has arrived."""

    def __str__(self) -> str:
        return f"{self.call!r} of driver {self.epoch}{_describe(self.message)}"

    @property
    def subject(self) -> str | None:
        """The statement or query that the report is about."""
        if isinstance(self.message, Renew):
            return next((report.id for report in self.message.queries), None)
        return getattr(self.message, "statement_id", None)


class RecordingLink:
    """The link of one driver, which records the reports and can hold them back."""

    def __init__(self, link: DriverLinkService, *, holds: bool) -> None:
        self._link = link
        self._holds = holds
        self.renewals = self
        self.tables = self
        self.views = self
        self.sent: list[tuple[str, Message]] = []

    def hello(self, lease: DriverLease, message: Hello) -> Acknowledged:
        return self._link.hello(lease, message)

    def poll(self, lease: DriverLease, message: Poll) -> Any:
        return self._link.poll(lease, message)

    def started(self, lease: DriverLease, message: Started) -> Any:
        # The driver does not wait for the answer, unless the statement may have effects.
        answer = None if message.has_effects else Acknowledged(applied=True)
        return self._send("started", lease, message, answer)

    def ended(self, lease: DriverLease, message: Ended) -> Any:
        return self._send("ended", lease, message)

    def renew(self, lease: DriverLease, message: Renew) -> Any:
        return self._send("renew", lease, message, Renewed(applied=True))

    def transact(self, lease: DriverLease, message: Transact) -> Transacted:
        answer: Transacted = self._send("transact", lease, message)
        return answer

    def begin_generation(self, lease: DriverLease, message: BeginGeneration) -> Generation:
        answer: Generation = self._send("begin_generation", lease, message)
        return answer

    def _send(
        self, call: str, lease: DriverLease, message: Message, answer: Message | None = None
    ) -> Any:
        self.sent.append((call, message))
        if not self._holds:
            return deliver(self._link, call, lease, message)
        if answer is None:
            raise Held
        return answer


def deliver(link: DriverLinkService, call: str, lease: DriverLease, message: Message) -> Any:
    """Make a call of a driver."""
    parts = {
        "renew": link.renewals,
        "transact": link.tables,
        "begin_generation": link.views,
    }
    return getattr(parts.get(call, link), call)(lease, message)


def add_sent(
    sent: tuple[Sent, ...], epoch: int, calls: list[tuple[str, Message]], *, delivered: bool
) -> tuple[Sent, ...]:
    """Return the reports that were sent, with further ones."""
    for call, message in calls:
        new = Sent(epoch, call, message, delivered)
        others = [each for each in sent if (each.epoch, each.call, each.message) != _key(new)]
        was_delivered = len(others) < len(sent) and sent[len(others)].delivered
        if delivered:
            others = [
                replace(each, overtaken=True) if each.subject == new.subject else each
                for each in others
            ]
        sent = (*others, replace(new, delivered=delivered or was_delivered))
    return sent


def mark_delivered(sent: tuple[Sent, ...], arrived: Sent) -> tuple[Sent, ...]:
    """Return the sent reports, with the given report marked as delivered."""
    return tuple(replace(each, delivered=True) if each == arrived else each for each in sent)


def find_change(before: Rows, after: Rows) -> str | None:
    """Return the first difference between rows that only a new report may make, or None."""
    for table, old, new in zip(tables_of(before), before, after, strict=False):
        names = [column.name for column in table.columns]
        old_rows, new_rows = ({row[0]: row for row in rows} for rows in (old, new))
        for key in old_rows.keys() ^ new_rows.keys():
            return f"{table.name}: row {key} {'appears' if key in new_rows else 'is removed'}"
        for key, row in old_rows.items():
            for name, was, is_now in zip(names, row, new_rows[key], strict=True):
                if was != is_now and name not in _RENEWED:
                    return f"{table.name}.{name} from {was!r} to {is_now!r}"
    return None


def _key(sent: Sent) -> tuple[int, str, Message]:
    return sent.epoch, sent.call, sent.message


def _describe(message: Message) -> str:
    if isinstance(message, Renew):
        parts = [
            f"{report.state}, generation {report.generation}, number {report.sequence}"
            for report in message.queries
        ]
        return f" (query {'; '.join(parts)})" if parts else ""
    state = getattr(message, "state", None)
    return "" if state is None else f" ({state})"
