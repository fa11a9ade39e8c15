"""The tables whose changes count for the `max-lag` of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.deploy.definitions import find_created_name
from headrace.deploy.manifest import TABLES_HINT, JobManifest
from headrace.deploy.read_tables import list_read_names
from headrace.errors import InvalidStatement
from headrace.grammar.lexer import code_tokens
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.model.materialized_view import MaterializedView
from headrace.model.schedule import LONGEST_LIST, Schedule

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_PARTS = 3
_FIRST_WORDS = 6
"""Number of words at the beginning of a statement that say what it creates or sets."""


def complete_lag(manifest: JobManifest, definitions: Iterable[str]) -> Schedule:
    """Return the schedule of a batch job, with the tables of its `max-lag` that `sql` names.

    Args:
        definitions: See `find_read_tables`.

    Raise InvalidStatement if the tables cannot be known.
    """
    schedule = manifest.schedule
    assert schedule is not None
    if schedule.max_lag is None or schedule.of is not None or manifest.sql is None:
        return schedule
    return add_tables(schedule, find_read_tables(manifest.sql, definitions))


def find_read_tables(query: str, definitions: Iterable[str]) -> list[str]:
    """Return the names of the tables that a query reads, in the order of its text.

    Args:
        definitions: Statements that run before the query. The name of a view among them stands for
            the tables that the view reads.

    Raise InvalidStatement if the tables cannot be known.
    """
    texts = list(definitions)
    views = {
        name.casefold(): text
        for text in texts
        for name in [find_created_name(text)]
        if name is not None and "VIEW" in _list_first_words(text)
    }
    tables = [
        table for each in list_read_names(query) for table in _expand(each, views, frozenset())
    ]
    is_short = any(len(parts) < _FULL_PARTS for parts in tables)
    if is_short and any(map(_changes_place, texts)):
        raise InvalidStatement(
            "A definition of the job changes the catalog or the database of its names, so that the"
            " tables of `max-lag` are not known.",
            hint=TABLES_HINT,
        )
    names = map(to_table_name, tables)
    return list({name.casefold(): name for name in names}.values())


def list_view_tables(view: MaterializedView) -> list[tuple[str, str, str]]:
    """Return catalog, database and name of each table that a materialized view reads.

    Raise InvalidStatement if the tables cannot be known, or cannot start runs.
    """
    command = parse(view.text).command
    assert isinstance(command, CreateMaterializedView)
    names = list_read_names(command.query)
    if not names:
        raise InvalidStatement(
            f"The materialized view {view.qualified_name} reads no table, and `max-lag` needs at"
            " least one."
        )
    return [_qualify(view, parts) for parts in names]


def _qualify(view: MaterializedView, parts: tuple[str, ...]) -> tuple[str, str, str]:
    """Return the complete name of a table in the query of a view."""
    _check_is_table(f"materialized view {view.qualified_name}", parts)
    scope = view.rows.scope
    if len(parts) == 1:
        parts = (scope.catalog, *scope.namespace, *parts)
    elif len(parts) < _FULL_PARTS:
        parts = (scope.catalog, *parts)
    if len(parts) != _FULL_PARTS:
        raise InvalidStatement(
            f"The materialized view {view.qualified_name} reads {to_table_name(parts)}. Headrace"
            " sees the changes of tables in a database of a catalog only.",
            hint="Refresh the view by `cron`, `every` or `after`.",
        )
    catalog, database, name = parts
    return catalog, database, name


def add_tables(schedule: Schedule, tables: Iterable[str]) -> Schedule:
    """Return a schedule with the tables of its `max-lag`. Names that differ in case are one table.

    Raise InvalidStatement if there are too many.
    """
    distinct = {name.casefold(): name for name in tables}
    if len(distinct) > LONGEST_LIST:
        raise InvalidStatement(
            f"The job reads {len(distinct):,} tables. At most {LONGEST_LIST} tables can start its"
            " runs.",
            hint="Divide the job.",
        )
    return schedule.model_copy(update={"of": list(distinct.values())})


def _expand(
    parts: tuple[str, ...], views: Mapping[str, str], within: frozenset[str]
) -> list[tuple[str, ...]]:
    """Return a table, or the tables that a view of the definitions reads.

    Args:
        within: Views whose texts are being read. Spark refuses a view that reads itself.
    """
    _check_is_table("query", parts)
    name = parts[-1].casefold()
    if name not in views or name in within:
        return [parts]
    names = list_read_names(views[name])
    if not names:
        raise InvalidStatement(
            f"The view {to_table_name(parts)} reads no table, so that its changes are not seen.",
            hint=TABLES_HINT,
        )
    return [table for each in names for table in _expand(each, views, within | {name})]


def _check_is_table(reader: str, parts: tuple[str, ...]) -> None:
    """Raise InvalidStatement if a name stands for files."""
    if "/" in parts[-1]:
        raise InvalidStatement(
            f"The {reader} reads the files {to_table_name(parts)}, whose changes Headrace does not"
            " see.",
            hint=TABLES_HINT,
        )


def _list_first_words(text: str) -> list[str]:
    return [token.word for token in code_tokens(text)][:_FIRST_WORDS]


def _changes_place(text: str) -> bool:
    first, *others = _list_first_words(text) or [""]
    return first == "USE" or (
        first == "SET" and not {"CATALOG", "DEFAULTCATALOG"}.isdisjoint(others)
    )


def to_table_name(parts: Iterable[str]) -> str:
    """Return a name as SQL writes it. Only parts that need backticks have them."""
    return ".".join(part if _PLAIN.fullmatch(part) else quote_name(part) for part in parts)
