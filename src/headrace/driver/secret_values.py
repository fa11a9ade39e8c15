"""The values of secrets that statements and streaming queries of a driver need.

Everything that the driver keeps has references. It asks its node for the values when it runs a
statement, starts a query, or restores a view, and does not keep them: a query that starts again
uses the value of that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.driver.failures import KnownFailure
from headrace.errors import InvalidRequest
from headrace.grammar.secret_references import (
    check_has_no_reference,
    resolve_sql,
    resolve_values,
)
from headrace.model.job import JobRows
from headrace.model.job_messages import (
    CheckJobs,
    CompareColumns,
    JobTask,
    JobToCheck,
    TextsToAnalyse,
)
from headrace.model.messages import Assignment, FoundSecrets, FoundStreams
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.model.stream_query import QuerySpec

_VIEWS = ("views", "global_views")
_REFUSALS = (KnownFailure, InvalidRequest)


class SecretSource(Protocol):
    """Where the values come from: the link to a node."""

    def find_secrets(self, names: list[str]) -> FoundSecrets:
        """Return the values of secrets, or why one of them cannot be used."""

    def find_streams(self, names: list[str]) -> FoundStreams:
        """Return the definitions of the streams that have these names."""


class ProviderFailed(KnownFailure):
    """The provider of the secrets does not answer: a later attempt may succeed."""


class SecretValues:
    """Puts the values of secrets in the place of references.

    Every method raises InvalidSecretReference, SecretMisplaced, and KnownFailure if the node
    refuses a secret, unless its docstring says otherwise.
    """

    def __init__(self, link: SecretSource) -> None:
        self._link = link

    def resolve_assignment(self, assignment: Assignment) -> Assignment:
        """Return a statement with values, but not those of the query that it starts.

        Each run of the query resolves them.
        """
        task = assignment.task
        changed = {
            "text": assignment.text
            if assignment.query is not None or task is not None
            else self._resolve_sql(assignment.text),
            "conf": self.resolve_conf(assignment.conf),
            "definitions": [self._resolve_sql(text) for text in assignment.definitions],
            "task": task if task is None else self._resolve_task(task),
        }
        return assignment.model_copy(update=changed)

    def resolve_spec(self, spec: QuerySpec) -> QuerySpec:
        """Return a streaming query with values."""
        changed = {
            "text": self._resolve_sql(spec.text),
            "definitions": [self._resolve_sql(text) for text in spec.definitions],
            "conf": self.resolve_conf(spec.conf),
            "rows": None if spec.rows is None else self._resolve_rows(spec.rows),
        }
        return spec.model_copy(update=changed)

    def resolve_conf(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration with values."""
        return resolve_values(conf, self._find)

    def find_streams(self, names: list[str]) -> FoundStreams:
        """Return the definitions of streams with values."""
        found = self._link.find_streams(names)
        texts = [self._resolve_sql(text) for text in found.definitions]
        return found.model_copy(update={"definitions": texts})

    def resolve_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with values. What cannot be resolved is listed as unsaved.

        Raises only LeaseLost and NoNodeAnswers.
        """
        unsaved = list(snapshot.unsaved)
        conf = dict[str, str]()
        for key, value in snapshot.conf.items():
            try:
                conf |= self.resolve_conf({key: value})
            except _REFUSALS as error:
                unsaved.append(f"setting {key}: {error.message}")
        views: dict[str, list[SnapshotEntry]] = {}
        for name in _VIEWS:
            views[name] = []
            for entry in getattr(snapshot, name):
                try:
                    views[name].append(self._resolve_entry(entry))
                except _REFUSALS as error:
                    unsaved.append(f"view {entry.name}: {error.message}")
        return snapshot.model_copy(update={"conf": conf, "unsaved": unsaved, **views})

    def _resolve_entry(self, entry: SnapshotEntry) -> SnapshotEntry:
        if entry.form is not EntryForm.SQL:
            return entry
        return entry.model_copy(update={"body": self._resolve_sql(entry.body)})

    def _resolve_task(self, task: JobTask) -> JobTask:
        if isinstance(task, CompareColumns):
            return self._resolve_comparison(task)
        if not isinstance(task, CheckJobs):
            return task
        return task.model_copy(update={"jobs": list(map(self._resolve_job, task.jobs))})

    def _resolve_comparison(self, task: CompareColumns) -> CompareColumns:
        writers = [
            writer.model_copy(
                update={
                    "before": list(map(self._resolve_texts, writer.before)),
                    "after": list(map(self._resolve_texts, writer.after)),
                }
            )
            for writer in task.writers
        ]
        readers = [
            reader.model_copy(update={"texts": list(map(self._resolve_texts, reader.texts))})
            for reader in task.readers
        ]
        return task.model_copy(update={"writers": writers, "readers": readers})

    def _resolve_texts(self, texts: TextsToAnalyse) -> TextsToAnalyse:
        changed = {
            "setup": list(map(self._resolve_sql, texts.setup)),
            "statements": list(map(self._resolve_sql, texts.statements)),
            "query": None if texts.query is None else self.resolve_spec(texts.query),
            "conf": self.resolve_conf(texts.conf),
        }
        return texts.model_copy(update=changed)

    def _resolve_job(self, job: JobToCheck) -> JobToCheck:
        queries = [
            query.model_copy(update={"spec": self.resolve_spec(query.spec)})
            for query in job.queries
        ]
        return job.model_copy(update={"queries": queries})

    def _resolve_rows(self, rows: JobRows) -> JobRows:
        check_has_no_reference(rows.code or "", "The code of a job")
        changed = {
            "setup": list(map(self._resolve_sql, rows.setup)),
            "sql": None if rows.sql is None else self._resolve_sql(rows.sql),
        }
        return rows.model_copy(update=changed)

    def _resolve_sql(self, text: str) -> str:
        return resolve_sql(text, self._find)

    def _find(self, names: list[str]) -> dict[str, str]:
        found = self._link.find_secrets(names)
        if found.failure is not None:
            refusal = KnownFailure if found.is_permanent else ProviderFailed
            raise refusal(found.failure)
        return found.values
