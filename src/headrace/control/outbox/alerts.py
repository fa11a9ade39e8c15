"""Alerts: the messages to webhooks about an event, in the transaction that makes the event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.config.alert_events import AlertEvent
from headrace.config.settings import Settings
from headrace.grammar.masking import mask_text
from headrace.model.delivery import CONFIGURED_PREFIX, NewDelivery, Webhook
from headrace.model.expectation import (
    CheckedRows,
    ExpectationResult,
    StatementChecks,
    ViewChecks,
)
from headrace.model.failure import Failure
from headrace.model.materialized_view import MaterializedView
from headrace.model.run import JobRun
from headrace.model.stream_expectation import BatchViolation, list_expectations
from headrace.model.stream_query import StreamQuery
from headrace.store import deliveries, webhooks
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.text.readable import format_utc

_MAX_MESSAGE = 2000
"""Characters of an error in a message."""


class Alerts:
    """Inserts the messages to the webhooks of an owner, and to those of the settings."""

    def __init__(self, settings: Settings) -> None:
        self.configured = list_configured(settings)
        """Webhooks that the settings declare."""

    def has_receivers(self, tx: Tx) -> bool:
        """Return whether there is any webhook."""
        return bool(self.configured) or webhooks.has_any(tx)

    def find_receivers(
        self, tx: Tx, event: AlertEvent, *, owner: str | None, job: str | None
    ) -> list[Webhook]:
        """Return the webhooks that receive an event on an object of an owner."""
        own = [] if owner is None else webhooks.list_of_owner(tx, owner)
        return [
            each for each in (*self.configured, *own) if each.receives(event, owner=owner, job=job)
        ]

    def record(
        self,
        tx: Tx,
        event: AlertEvent,
        data: Mapping[str, Any],
        *,
        subject: str,
        owner: str | None,
        job: str | None = None,
    ) -> None:
        """Insert the messages about an event. Each webhook gets one about a subject.

        Args:
            data: What the messages say, as JSON. It has no secrets.
            subject: What distinguishes the event from others of its kind, for example a run.
            owner: Owner of the object; None: it belongs to the nodes.
            job: Name of the job to which the object belongs.
        """
        receivers = self.find_receivers(tx, event, owner=owner, job=job)
        if receivers:
            payload = make_payload(event, data, format_utc(read_clock(tx.connection)))
            deliveries.insert_deliveries(
                tx,
                [
                    NewDelivery(
                        endpoint=each.id, owner=owner, kind=event, subject=subject, payload=payload
                    )
                    for each in receivers
                ],
            )

    def record_failed_run(self, tx: Tx, run: JobRun, failure: Failure | None) -> None:
        """Insert the messages about a run that fails in this transaction."""
        data = {
            **describe_run(run),
            "failure": None if failure is None else describe_failure(failure),
        }
        self.record(tx, AlertEvent.RUN_FAILED, data, subject=run.id, owner=run.owner, job=run.name)

    def record_violations(self, tx: Tx, run: JobRun, checks: StatementChecks | None) -> None:
        """Insert the messages about the expectations that a statement of a run has violated."""
        if checks is None:
            return
        self._record_violated(
            tx, describe_run(run), checks, checks.statement_id, owner=run.owner, job=run.name
        )

    def record_violated_refresh(self, tx: Tx, view: MaterializedView, checks: ViewChecks) -> None:
        """Insert the messages about the expectations that a refresh of a view has violated."""
        if checks.statement_id is not None:
            about = {"view": view.qualified_name, "owner": view.owner}
            self._record_violated(tx, about, checks, checks.statement_id, owner=view.owner)

    def _record_violated(
        self,
        tx: Tx,
        about: dict[str, Any],
        checks: CheckedRows,
        statement_id: str,
        *,
        owner: str,
        job: str | None = None,
    ) -> None:
        violated = _list_violated(checks)
        if violated:
            data = {**about, "statement": statement_id, "expectations": violated}
            event = AlertEvent.EXPECTATION_VIOLATED
            self.record(tx, event, data, subject=statement_id, owner=owner, job=job)

    def record_violated_batch(self, tx: Tx, query: StreamQuery, violation: BatchViolation) -> None:
        """Insert the messages about the expectations that a batch of a stream has violated."""
        modes = {each.name: each.on_violation for each in list_expectations(query)}
        facts = {
            "batch": violation.batch,
            "expectations": [
                {
                    "name": each.name,
                    "on_violation": modes[each.name],
                    "violations": each.violations,
                    "nulls": each.nulls,
                }
                for each in violation.counts.expectations
                if each.name in violation.names
            ],
        }
        self._record_of_stream(tx, query, facts, subject=f"{query.id}/{violation.batch}")

    def record_failed_batch(self, tx: Tx, query: StreamQuery, failure: Failure) -> None:
        """Insert the messages about a stream that an expectation with `fail` has ended."""
        facts = {"failure": describe_failure(failure)}
        self._record_of_stream(tx, query, facts, subject=f"{query.id}/failed")

    def _record_of_stream(
        self, tx: Tx, query: StreamQuery, facts: Mapping[str, Any], *, subject: str
    ) -> None:
        job = query.scope if query.view_name is None else None
        about = {"view": query.view_name} if job is None else {"job": job}
        self.record(
            tx,
            AlertEvent.EXPECTATION_VIOLATED,
            {**about, "owner": query.owner, "query": query.id, **facts},
            subject=subject,
            owner=query.owner,
            job=job,
        )


def _list_violated(checks: CheckedRows) -> list[dict[str, Any]]:
    """Return the expectations that rows have violated, with their counts, as JSON of a message."""
    return [
        {
            "name": each.name,
            "on_violation": each.on_violation,
            "violations": counted.violations,
            "nulls": counted.nulls,
        }
        for index, (each, counted) in enumerate(checks.list_counted())
        if checks.find_result(index) is ExpectationResult.VIOLATED
    ]


def list_configured(settings: Settings) -> Sequence[Webhook]:
    """Return the webhooks that the settings declare."""
    return [
        Webhook(
            id=f"{CONFIGURED_PREFIX}{name}",
            owner=None,
            name=name,
            url=each.url,
            secret=each.secret,
            events=each.events,
            jobs=each.jobs,
            owners=each.owners,
        )
        for name, each in settings.webhooks.items()
    ]


def make_payload(event: str, data: Mapping[str, Any], timestamp: str) -> str:
    """Return the body of a message: type, time and data, as Standard Webhooks recommends."""
    body = {"type": event, "timestamp": timestamp, "data": data}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def describe_run(run: JobRun) -> dict[str, Any]:
    """Return what a message says about a run."""
    return {
        "job": run.name,
        "owner": run.owner,
        "run": run.id,
        "trigger": run.trigger,
        "logical_time": format_utc(run.times.logical_time),
        "interval_start": format_utc(run.times.interval_start),
        "interval_end": format_utc(run.times.interval_end),
        "attempt": run.attempt,
    }


def describe_failure(failure: Failure) -> dict[str, Any]:
    """Return what a message says about a failure, without secrets."""
    return {"code": failure.code, "message": mask_text(failure.message)[:_MAX_MESSAGE]}
