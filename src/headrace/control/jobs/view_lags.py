"""Jobs with `max-lag` whose script refreshes materialized views: the tables whose changes count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.control.jobs.drafts import JobDraft
from headrace.deploy.freshness import list_view_tables, to_table_name
from headrace.deploy.manifest import TABLES_HINT
from headrace.deploy.schedule import to_table_key
from headrace.deploy.script_statements import list_refreshed_views
from headrace.errors import InvalidStatement
from headrace.model.deployment import ManifestError
from headrace.store.database import Tx
from headrace.store.streams import views


def complete_view_lags(
    tx: Tx, owner: str, drafts: Iterable[JobDraft]
) -> tuple[list[JobDraft], list[ManifestError]]:
    """Return the drafts, with the tables of each `max-lag` for which the script names views.

    Also return the errors of those whose tables cannot be known.
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
    script = draft.spec.manifest.get("script")
    if batch is None or schedule is None or schedule.max_lag is None or schedule.of is not None:
        return draft
    assert isinstance(script, str)
    tables = {
        table.casefold(): table
        for name in list_refreshed_views(script)
        for table in _list_tables(tx, owner, name)
    }
    named = schedule.model_copy(update={"of": list(tables.values())})
    rules = batch.rules.model_copy(update={"schedule": named})
    batch = batch.model_copy(update={"rules": rules})
    return replace(draft, spec=draft.spec.model_copy(update={"batch": batch}))


def _list_tables(tx: Tx, owner: str, name: Sequence[str]) -> list[str]:
    """Return the names of the tables that a view reads."""
    found = views.list_named(tx, [owner], name)
    if len(found) != 1:
        problem = "is ambiguous" if found else "does not exist"
        raise InvalidStatement(
            f"The materialized view {'.'.join(name)} {problem}, so that the tables of `max-lag` are"
            " not known."
        )
    view = found[0]
    tables = list_view_tables(view)
    for parts in tables:
        if views.list_named(tx, [owner], parts):
            raise InvalidStatement(
                f"The materialized view {view.qualified_name} reads the materialized view"
                f" {'.'.join(parts)}, whose refreshes do not count."
            )
    names = [to_table_name(parts) for parts in tables]
    for each in names:
        to_table_key(each)  # a namespace of several levels is refused
    return names
