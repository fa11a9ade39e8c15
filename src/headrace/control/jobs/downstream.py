"""The jobs, views and streams that a plan would break: what a driver compares, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.control.jobs.tasks import EndedTask, submit_task
from headrace.deploy.definitions import find_created_name
from headrace.deploy.manifest import JobManifest
from headrace.deploy.relations import MentionedNames, split_definitions
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.materialized_views import CreateMaterializedView, blank_before_query
from headrace.grammar.parse import parse
from headrace.grammar.script import split_script
from headrace.grammar.stream_statements import SaveStream
from headrace.model.deployment import BreakingChange, VersionSpec
from headrace.model.job import ReaderKind
from headrace.model.job_messages import (
    BrokenReader,
    CompareColumns,
    ComparedColumns,
    ReaderToAnalyse,
    TextsToAnalyse,
    WriterToCompare,
)
from headrace.model.stream_query import QuerySpec, StreamQuery
from headrace.store.database import Tx
from headrace.store.streams import stream_queries, views
from headrace.text.readable import describe_count

_MAX_READERS = 100
"""Largest number of readers that one plan analyses."""
_MAX_WRITERS = 50
"""Largest number of changed jobs whose columns one plan compares."""
_MAX_OBJECTS = 1000
"""Largest number of views, and of streams, of an owner among which readers are searched."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A job as it is deployed, and as it is after the plan."""

    name: str
    before: VersionSpec
    after: VersionSpec
    """The same as `before` for a job that the plan leaves alone."""
    is_planned: bool
    """Whether a manifest of the plan declares it."""

    @property
    def changes_query(self) -> bool:
        return self.before.query_fingerprint != self.after.query_fingerprint


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What may read a changed table."""

    kind: ReaderKind
    name: str
    texts: list[TextsToAnalyse]
    targets: frozenset[str]
    is_searched: bool
    """Whether it is analysed even if no other job of the plan changes a table that it reads."""


def plan_comparison(
    tx: Tx, owner: str, changes: Sequence[VersionChange]
) -> tuple[CompareColumns | None, list[str]]:
    """Return what a driver is to compare for a plan, and notes; None: nothing.

    Batch jobs of the plan are always analysed: until their next run, nothing else shows that a
    table has changed. Other readers are analysed if a job of the plan that changes writes to a
    table that they mention.

    Args:
        changes: The deployed jobs of the owner.
    """
    writers = [change for change in changes if change.changes_query][:_MAX_WRITERS]
    names = {
        target
        for change in writers
        for spec in (change.before, change.after)
        for target in _list_targets(spec)
    }
    candidates = [*map(_describe_job, changes), *_list_views(tx, owner), *_list_streams(tx, owner)]
    readers = _find_readers(candidates, names)
    if not readers:
        return None, []
    notes = []
    if len(readers) > _MAX_READERS:
        count = len(readers) - _MAX_READERS
        notes.append(f"{count} of {len(readers)} jobs, views and streams were not analysed.")
    task = CompareColumns(
        writers=[
            WriterToCompare(
                name=change.name,
                before=[*list_texts(change.before), *_list_kept(change.before)],
                after=[*list_texts(change.after), *_list_kept(change.after)],
            )
            for change in writers
        ],
        readers=[
            ReaderToAnalyse(kind=each.kind, name=each.name, texts=each.texts)
            for each in readers[:_MAX_READERS]
        ],
    )
    return task, notes


def submit_comparison(tx: Tx, owner: str, session_id: str, task: CompareColumns) -> str:
    """Submit a comparison to a session, and return the id of its statement."""
    count = describe_count(len(task.readers), "reader")
    return submit_task(tx, owner, session_id, task, f"compare the columns of {count}")


def read_comparison(
    task: CompareColumns | None, ended: EndedTask
) -> tuple[list[BreakingChange], list[str]]:
    """Return the breaking changes that a driver has found, and notes."""
    if task is None or not isinstance(ended.outcome, ComparedColumns):
        cause = "" if ended.failure is None else f": {ended.failure.message}"
        return [], [f"Jobs, views and streams that read changed tables were not analysed{cause}"]
    broken = [_describe(task.readers[each.reader], each) for each in ended.outcome.broken]
    return broken, ended.outcome.notes


def _describe(reader: ReaderToAnalyse, broken: BrokenReader) -> BreakingChange:
    if not broken.cause:
        message = broken.message
    elif broken.new_type:
        message = (
            f"column {broken.column} of {broken.table} changes from {broken.old_type} to"
            f" {broken.new_type} by the change of {broken.cause}"
        )
    else:
        message = (
            f"column {broken.column} of {broken.table} no longer exists after the change of"
            f" {broken.cause}"
        )
    return BreakingChange(
        kind=reader.kind,
        name=reader.name,
        table=broken.table,
        column_name=broken.column,
        cause=broken.cause,
        message=message,
        line=broken.line,
        column=broken.offset,
    )


def _find_readers(candidates: Sequence[_Candidate], names: set[str]) -> list[_Candidate]:
    """Return the candidates that mention one of the names, or a target of such a candidate."""
    found: dict[int, _Candidate] = {}
    remaining, names = dict(enumerate(candidates)), set(names)
    is_growing = bool(names)
    while is_growing:
        new = {at: each for at, each in remaining.items() if _mentions(each, names)}
        found |= new
        remaining = {at: each for at, each in remaining.items() if at not in new}
        targets = {target for each in new.values() for target in each.targets}
        is_growing = bool(targets - names)
        names |= targets
    return [*found.values(), *(each for each in remaining.values() if each.is_searched)]


def _mentions(candidate: _Candidate, names: set[str]) -> bool:
    for text in (text for texts in candidate.texts for text in _list_sql(texts)):
        folded = text.casefold()
        present = [name for name in names if name in folded]
        if present:
            mentioned = MentionedNames()
            mentioned.add_sql(text)
            if any(mentioned.has((name,)) for name in present):
                return True
    return False


def _list_sql(texts: TextsToAnalyse) -> Iterator[str]:
    yield from texts.setup
    yield from texts.statements
    if texts.query is not None:
        yield _read_of(texts.query)
        yield from texts.query.definitions
        yield from (view.query for view in texts.query.views)
        rows = texts.query.rows
        if rows is not None:
            yield from rows.setup
            yield rows.sql or ""


def _read_of(spec: QuerySpec) -> str:
    """Return what the statement of a streaming query reads, as SQL."""
    command = parse(spec.text).command
    if isinstance(command, CreateMaterializedView):
        return command.query
    assert isinstance(command, SaveStream)
    return qualified_name_to_sql(command.source)


def _describe_job(change: VersionChange) -> _Candidate:
    return _Candidate(
        kind=ReaderKind.JOB,
        name=change.name,
        texts=list_texts(change.after),
        targets=frozenset(_list_targets(change.after)),
        is_searched=change.is_planned and change.after.batch is not None,
    )


def list_texts(spec: VersionSpec) -> list[TextsToAnalyse]:
    """Return what Spark can analyse of a version; nothing of Python code."""
    if spec.batch is None:
        return [
            TextsToAnalyse(query=query.spec, target=_target_of(query.spec), conf=query.spec.conf)
            for query in spec.queries
            if query.spec.rows is None or query.spec.rows.code is None
        ]
    manifest = JobManifest.model_validate(spec.manifest)
    if manifest.script is not None:
        statements = [
            # White space keeps each statement at its position in the script.
            "\n" * (part.line - 1) + " " * (part.column - 1) + part.text
            for part in split_script(manifest.script)
        ]
    elif manifest.sql is not None:
        statements = [manifest.sql.rstrip().removesuffix(";")]
    else:
        return []
    return [
        TextsToAnalyse(
            setup=spec.definitions.setup,
            statements=statements,
            target=[] if manifest.script is not None else list(manifest.target or ()),
            conf=spec.batch.conf,
        )
    ]


def _target_of(spec: QuerySpec) -> list[str]:
    command = parse(spec.text).command
    is_table = isinstance(command, SaveStream) and command.to_table
    return list(command.target) if is_table and isinstance(command, SaveStream) else []


def _list_kept(spec: VersionSpec) -> list[TextsToAnalyse]:
    """Return the tables and views that the definitions of a stream declare in a catalog."""
    if spec.batch is not None:
        return []
    kept = split_definitions(spec.definitions.setup).kept
    return [TextsToAnalyse(setup=[text]) for text in kept]


def _list_targets(spec: VersionSpec) -> Iterator[str]:
    """Yield the last parts of the names of what a version writes to or creates, case-folded."""
    for texts in list_texts(spec):
        yield from (part.casefold() for part in texts.target[-1:])
        yield from _list_created([*texts.setup, *texts.statements])
    yield from _list_created(spec.definitions.setup)


def _list_created(statements: Iterable[str]) -> Iterator[str]:
    for text in statements:
        name = find_created_name(text)
        if name is not None:
            yield name.casefold()


def _list_views(tx: Tx, owner: str) -> Iterator[_Candidate]:
    """Yield the materialized views that no streaming query refreshes."""
    for view in views.list_live(tx, [owner], _MAX_OBJECTS):
        command = parse(view.text).command
        if view.query_id is not None or not isinstance(command, CreateMaterializedView):
            continue
        query = blank_before_query(view.text, command)
        texts = TextsToAnalyse(statements=[query], target=view.rows.path, scope=view.rows.scope)
        targets = frozenset({view.name.casefold()})
        yield _Candidate(ReaderKind.VIEW, view.name, [texts], targets, is_searched=False)


def _list_streams(tx: Tx, owner: str) -> Iterator[_Candidate]:
    for query in stream_queries.list_live_adhoc(tx, owner, _MAX_OBJECTS):
        yield _describe_stream(query)


def _describe_stream(query: StreamQuery) -> _Candidate:
    spec, view = query.spec, query.spec.view
    target = _target_of(spec) if view is None else view.rows.path
    scope = spec.scope if view is None else view.rows.scope
    texts = TextsToAnalyse(query=spec, target=target, conf=spec.conf, scope=scope)
    return _Candidate(
        kind=ReaderKind.STREAM if view is None else ReaderKind.VIEW,
        name=query.name,
        texts=[texts],
        targets=frozenset(part.casefold() for part in target[-1:]),
        is_searched=False,
    )
