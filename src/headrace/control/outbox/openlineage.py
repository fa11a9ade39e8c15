"""OpenLineage events about runs of batch jobs, their statements, and runs of streaming queries.

Each run of a job, each statement of such a run, and each run of a streaming query in Spark has one
START, and one COMPLETE, FAIL or ABORT. A run of a streaming query also has one RUNNING when its
tables are known. The transaction that stores the step inserts the event into the outbox, whose
unique key prevents a second one.
https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid5

from headrace import __version__
from headrace.config.outbox import OpenLineageSettings
from headrace.control.outbox.alerts import describe_failure
from headrace.model.delivery import OPENLINEAGE, NewDelivery
from headrace.model.failure import Failure
from headrace.model.lifecycle import RunState
from headrace.model.lineage import TableUse
from headrace.model.run import JobRun
from headrace.model.stream_query import (
    ADHOC_SCOPE,
    StreamQuery,
    StreamRunChange,
    StreamRunStep,
)
from headrace.store import deliveries, lineage
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import jobs, runs
from headrace.text.readable import format_utc

Json = dict[str, Any]
MAX_BYTES = 256 * 1024
"""Largest event. A larger one loses its columns, then its last tables."""
_PRODUCER = f"urn:headrace:{__version__}"
_SPEC = "https://openlineage.io/spec"
_END_TYPES = {RunState.SUCCEEDED: "COMPLETE", RunState.FAILED: "FAIL"}
"""Types of the events that end a run; the others are ABORT."""
_STREAM_TYPES = {
    StreamRunStep.TABLES_REPORTED: "RUNNING",
    StreamRunStep.FINISHED: "COMPLETE",
    StreamRunStep.STOPPED: "ABORT",
    StreamRunStep.FAILED: "FAIL",
}
"""Types of the events about a streaming query, apart from START."""
_KINDS = {"START": f"{OPENLINEAGE}.start", "RUNNING": f"{OPENLINEAGE}.running"}
"""Kinds of deliveries by type of event. The other types end a run, and share a kind: it is part of
the outbox's key, so that a run has one end."""
_END_KIND = f"{OPENLINEAGE}.end"


class OpenLineageEvents:
    """Inserts events, if the settings name a receiver."""

    def __init__(self, settings: OpenLineageSettings) -> None:
        self._is_enabled = settings.is_enabled
        self._namespace = settings.namespace

    def begin(self, tx: Tx, run: JobRun) -> None:
        """Insert the events for the begin of the statement of an attempt, and of its run."""
        statement_id = runs.find_statement(tx, run) if self._is_enabled else None
        if statement_id is None:
            return
        events = [self._make_event(tx, "START", run)]
        events.append(self._make_event(tx, "START", run, statement_id))
        deliveries.insert_deliveries(tx, events)

    def end_statement(
        self, tx: Tx, run: JobRun, state: RunState, failure: Failure | None = None
    ) -> None:
        """Insert the event for the end of the statement of an attempt, if there is one.

        Args:
            state: The state of the run to which the end of the statement leads.
        """
        statement_id = runs.find_statement(tx, run) if self._is_enabled else None
        if statement_id is not None:
            event_type = _END_TYPES.get(state, "ABORT")
            event = self._make_event(tx, event_type, run, statement_id, failure=failure)
            deliveries.insert_deliveries(tx, [event])

    def end_run(self, tx: Tx, run: JobRun, state: RunState, failure: Failure | None) -> None:
        """Insert the events for the end of a run, and of its statement, if it has begun."""
        if not self._is_enabled or run.attempt == 0:
            return
        self.end_statement(tx, run, state, failure)
        event = self._make_event(tx, _END_TYPES.get(state, "ABORT"), run, failure=failure)
        deliveries.insert_deliveries(tx, [event])

    def _make_event(
        self,
        tx: Tx,
        event_type: str,
        run: JobRun,
        statement_id: str | None = None,
        *,
        failure: Failure | None = None,
    ) -> NewDelivery:
        job_name = f"{run.owner}.{run.name}"
        facets = {"nominalTime": _nominal_time(run)}
        if statement_id is not None:
            facets["parent"] = _make_parent(run.id, self._namespace, job_name)
        if failure is not None:
            facets["errorMessage"] = _make_error_message(failure)
        name = job_name if statement_id is None else f"{job_name}.{run.position}"
        job_type = "JOB" if statement_id is None else "QUERY"
        event = {
            **_begin_event(tx, event_type),
            "run": {"runId": _to_uuid(statement_id or run.id), "facets": facets},
            "job": {
                "namespace": self._namespace,
                "name": name,
                "facets": _job_facets("BATCH", job_type),
            },
        }
        tables = []
        if statement_id is not None and event_type != "START":
            tables = lineage.list_of_statement(tx, statement_id)
        return NewDelivery(
            endpoint=OPENLINEAGE,
            owner=run.owner,
            kind=_KINDS.get(event_type, _END_KIND),
            subject=statement_id or run.id,
            payload=make_event_text(event, tables, self._namespace),
        )


class OpenLineageStreamEvents:
    """Inserts the events about runs of streaming queries, if the settings name a receiver."""

    def __init__(self, settings: OpenLineageSettings) -> None:
        self._is_enabled = settings.is_enabled
        self._namespace = settings.namespace

    def record(self, tx: Tx, change: StreamRunChange) -> None:
        """Insert the events about a step of a run, except those that the outbox already has."""
        if not self._is_enabled:
            return
        tables = lineage.list_of_stream(tx, change.query.id)
        if change.step is not StreamRunStep.STARTED:
            events = [self._make_event(tx, _STREAM_TYPES[change.step], change, tables)]
        else:
            events = [self._make_event(tx, "START", change, [])]
            if tables:
                events.append(self._make_event(tx, "RUNNING", change, tables))
        deliveries.insert_deliveries(tx, events)

    def _make_event(
        self, tx: Tx, event_type: str, change: StreamRunChange, tables: Sequence[TableUse]
    ) -> NewDelivery:
        query = change.query
        run_id = _derive_uuid(query, change.run_id)
        event = {
            **_begin_event(tx, event_type),
            "run": {"runId": run_id, "facets": self._make_run_facets(tx, change)},
            "job": {
                "namespace": self._namespace,
                "name": f"{query.owner}.{query.qualified_name}",
                "facets": _job_facets("STREAMING", "QUERY"),
            },
        }
        return NewDelivery(
            endpoint=OPENLINEAGE,
            owner=query.owner,
            kind=_KINDS.get(event_type, _END_KIND),
            subject=run_id,
            payload=make_event_text(event, tables, self._namespace),
        )

    def _make_run_facets(self, tx: Tx, change: StreamRunChange) -> Json:
        query, facets = change.query, {}
        job = None if query.scope == ADHOC_SCOPE else jobs.find(tx, query.owner, query.scope)
        if job is not None:
            facets["parent"] = _make_parent(job.id, self._namespace, f"{job.owner}.{job.name}")
        if change.failure is not None:
            facets["errorMessage"] = _make_error_message(change.failure)
        return facets


def _begin_event(tx: Tx, event_type: str) -> Json:
    return {
        "eventType": event_type,
        "eventTime": format_utc(read_clock(tx.connection)),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }


def make_event_text(event: Json, tables: Sequence[TableUse], namespace: str) -> str:
    """Return an event with its datasets as JSON of at most MAX_BYTES."""
    with_columns = True
    while True:
        datasets = [(use, _make_dataset(use, namespace, with_columns)) for use in tables]
        full = {
            **event,
            "inputs": [dataset for use, dataset in datasets if not use.is_written],
            "outputs": [dataset for use, dataset in datasets if use.is_written],
        }
        text = json.dumps(full, separators=(",", ":"))
        if len(text) <= MAX_BYTES or not tables:
            return text
        if not with_columns:
            tables = tables[: len(tables) // 2]
        with_columns = False


def _make_dataset(use: TableUse, namespace: str, with_columns: bool) -> Json:
    if use.location is None:
        dataset: Json = {"namespace": namespace, "name": use.display_name}
    else:
        place, path = _split_location(use.location)
        dataset = {"namespace": place, "name": use.name or path}
    if use.columns and with_columns:
        fields = [{"name": column} for column in use.columns]
        dataset["facets"] = {"schema": _make_facet("1-2-0", "SchemaDatasetFacet", fields=fields)}
    return dataset


def _split_location(location: str) -> tuple[str, str]:
    """Return the namespace and the name of files, as OpenLineage names datasets."""
    if location.startswith("jdbc:"):
        return location.removeprefix("jdbc:"), location
    try:
        parts = urlsplit(location)
    except ValueError:
        # A driver reports any text, for example `s3a://a[b]/c`.
        return "file", location
    if parts.netloc:
        return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"
    return "file", parts.path if parts.scheme == "file" else location


def _nominal_time(run: JobRun) -> Json:
    return _make_facet(
        "1-0-1",
        "NominalTimeRunFacet",
        nominalStartTime=format_utc(run.times.interval_start),
        nominalEndTime=format_utc(run.times.interval_end),
    )


def _make_parent(object_id: str, namespace: str, job_name: str) -> Json:
    return _make_facet(
        "1-2-0",
        "ParentRunFacet",
        run={"runId": _to_uuid(object_id)},
        job={"namespace": namespace, "name": job_name},
    )


def _make_error_message(failure: Failure) -> Json:
    message = describe_failure(failure)["message"]
    return _make_facet("1-0-1", "ErrorMessageRunFacet", message=message, programmingLanguage="SQL")


def _job_facets(processing_type: str, job_type: str) -> Json:
    facet = _make_facet(
        "2-0-4",
        "JobTypeJobFacet",
        processingType=processing_type,
        integration="HEADRACE",
        jobType=job_type,
    )
    return {"jobType": facet}


def _make_facet(version: str, name: str, **fields: Any) -> Json:
    url = f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": _PRODUCER, "_schemaURL": url, **fields}


def _to_uuid(object_id: str) -> str:
    """Return the UUID in an id of Headrace."""
    return str(UUID(object_id.partition("_")[2]))


def _derive_uuid(query: StreamQuery, run_id: str) -> str:
    """Return the id of a run of a streaming query.

    A driver can report any `run_id`. The namespace keeps the runs of different queries apart.
    """
    return str(uuid5(UUID(_to_uuid(query.id)), run_id))
