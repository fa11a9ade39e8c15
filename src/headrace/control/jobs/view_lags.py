"""Jobs with `max-lag` whose script refreshes materialized views: the tables whose changes count."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from headrace.control.jobs.drafts import JobDraft
from headrace.deploy.freshness import add_tables, list_view_tables, to_table_name
from headrace.deploy.manifest import TABLES_HINT
from headrace.deploy.script_statements import list_refreshed_views
from headrace.errors import InvalidStatement
from headrace.model.deployment import ManifestError
from headrace.model.materialized_view import MaterializedView, RowStorage
from headrace.store.database import Tx
from headrace.store.streams import views


def complete_view_lags(
    tx: Tx, owner: str, drafts: Iterable[JobDraft]
) -> tuple[list[JobDraft], list[ManifestError]]:
    """Return the drafts, and an error for each of them whose tables cannot be known.

    A `max-lag` without tables gets those of the views that the script refreshes.
    """
    completed, errors = list[JobDraft](), list[ManifestError]()
    for draft in drafts:
        try:
            completed.append(_complete(tx, owner, draft))
        except InvalidStatement as error:
            errors.append(draft.error("invalid_schedule", error.message, error.hint or TABLES_HINT))
    return completed, errors


def _complete(tx: Tx, owner: str, draft: JobDraft) -> JobDraft:
    batch = draft.spec.batch
    schedule = None if batch is None else batch.rules.schedule
    if batch is None or schedule is None or schedule.max_lag is None or schedule.of is not None:
        return draft
    script = draft.spec.manifest.get("script")
    assert isinstance(script, str)
    tables = list[str]()
    refreshed = set[str]()
    for name in dict.fromkeys(list_refreshed_views(script)):
        view = _find_view(tx, owner, name)
        for parts in list_view_tables(view):
            if not _reads_refreshed_rows(tx, view, parts, refreshed):
                tables.append(to_table_name(parts))
        refreshed.add(view.id)
    rules = batch.rules.model_copy(update={"schedule": add_tables(schedule, tables)})
    batch = batch.model_copy(update={"rules": rules})
    return replace(draft, spec=draft.spec.model_copy(update={"batch": batch}))


def _find_view(tx: Tx, owner: str, name: Sequence[str]) -> MaterializedView:
    """Return the view of an owner that a job can refresh. Raise InvalidStatement without one."""
    named, written = views.list_named(tx, [owner], name), ".".join(name)
    if not named:
        raise InvalidStatement(
            f"The materialized view {written} of {owner} does not exist.",
            hint="Create the view before you deploy the job that refreshes it.",
        )
    if len(named) > 1:
        names = ", ".join(view.qualified_name for view in named)
        raise InvalidStatement(
            f"The name {written} is ambiguous: {names}.", hint="Write the complete name."
        )
    [view] = named
    if view.query_id is not None:
        raise InvalidStatement(
            f"The materialized view {view.qualified_name} refreshes itself.",
            hint="Delete the job: the view needs none.",
        )
    return view


def _reads_refreshed_rows(
    tx: Tx, view: MaterializedView, parts: Sequence[str], refreshed: Collection[str]
) -> bool:
    """Return whether a table that a view reads is a view that the script has refreshed before.

    Args:
        refreshed: Ids of the views that the script has refreshed before.

    Raise InvalidStatement for another view whose refreshes change no table of its name.
    """
    # A driver may read the views of all owners.
    for inner in views.list_named(tx, None, parts):
        if inner.id in refreshed:
            return True
        if inner.rows.storage is RowStorage.GENERATIONS:
            raise InvalidStatement(
                f"The materialized view {view.qualified_name} reads the materialized view"
                f" {inner.qualified_name}, whose refreshes do not count.",
                hint=f"Refresh {inner.qualified_name} before it, in the same script.",
            )
    return False
