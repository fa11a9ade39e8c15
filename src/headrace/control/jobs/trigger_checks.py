"""Checks of the jobs that follow others: each must exist, and none may follow itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.errors import InvalidStatement
from headrace.grammar.clauses import parse_qualified_name
from headrace.grammar.quoting import quote_name
from headrace.model.deployment import VersionSpec
from headrace.model.run import TriggerSource, TriggerSourceKind
from headrace.model.schedule import Schedule

_DEFAULT_PLACE = ("spark_catalog", "default")
"""Catalog and database of a name without them, in a connection of a run."""
_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class TriggerProblem:
    """What is wrong with the jobs that a job follows."""

    job: str
    code: str
    message: str
    hint: str


def find_trigger_problems(specs: Mapping[str, VersionSpec | None]) -> list[TriggerProblem]:
    """Return what is wrong with the jobs that jobs follow.

    Args:
        specs: What all jobs of an owner do, by their names. None: the job has no version yet.
    """
    names = {name.casefold(): name for name in specs}
    upstream = {name: list_upstream(spec) for name, spec in specs.items()}
    problems = [
        problem
        for name, followed in upstream.items()
        for each in followed
        for problem in _find_problems(name, each, names, specs)
    ]
    writers = _find_writers(specs)
    edges = {
        name: [
            *(names[each.casefold()] for each in upstream[name] if each.casefold() in names),
            *(writer for key in _list_table_keys(spec) for writer in writers.get(key, ())),
        ]
        for name, spec in specs.items()
    }
    # Its own writes do not start a job.
    edges = {
        name: [each for each in others if each != name or name in upstream[name]]
        for name, others in edges.items()
    }
    cycle = _find_cycle(edges)
    if cycle:
        message = f"The jobs follow each other in a cycle: {' → '.join(cycle)}."
        hint = "Remove one of the names from the `after`, `on-change` or `of` of its job."
        problems.append(TriggerProblem(cycle[0], "cyclic_schedule", message, hint))
    return problems


def list_sources(rule: Schedule | None) -> list[TriggerSource]:
    """Return the jobs and tables that start runs by a schedule."""
    if rule is None:
        return []
    return [
        *(
            TriggerSource(TriggerSourceKind.JOB, name.casefold(), name)
            for name in rule.list_upstream()
        ),
        *(
            TriggerSource(TriggerSourceKind.TABLE, to_table_key(name), name)
            for name in rule.list_tables()
        ),
    ]


def to_table_key(name: str) -> str:
    """Return the text that transactions of a table have. A name of two parts has no catalog.

    Raise InvalidStatement unless it is the name of a table.
    """
    try:
        parts = parse_qualified_name(name, "the name of a table")
    except InvalidStatement:
        parts = ()
    if not 1 <= len(parts) <= _MOST_PARTS:
        raise InvalidStatement(
            f"{name[:100]!r} is not the name of a table.",
            hint="Write one to three parts, as `table`, `database.table` or"
            " `catalog.database.table`.",
        )
    catalog, *rest = (*_DEFAULT_PLACE[: _MOST_PARTS - len(parts)], *parts)
    return f"{catalog}.{'.'.join(map(quote_name, rest))}".casefold()


def list_upstream(spec: VersionSpec | None) -> list[str]:
    """Return the names of the jobs that a version follows."""
    rule = None if spec is None or spec.batch is None else spec.batch.rules.schedule
    return [] if rule is None else rule.list_upstream()


def _find_writers(specs: Mapping[str, VersionSpec | None]) -> dict[str, list[str]]:
    """Return the names of the batch jobs that write to a table, by the key of the table."""
    writers: dict[str, list[str]] = {}
    for name, spec in specs.items():
        target = None if spec is None or spec.batch is None else spec.manifest.get("target-table")
        if isinstance(target, str):
            writers.setdefault(to_table_key(target), []).append(name)
    return writers


def _list_table_keys(spec: VersionSpec | None) -> list[str]:
    rule = None if spec is None or spec.batch is None else spec.batch.rules.schedule
    return [each.key for each in list_sources(rule) if each.kind is TriggerSourceKind.TABLE]


def _find_problems(
    name: str, followed: str, names: Mapping[str, str], specs: Mapping[str, VersionSpec | None]
) -> list[TriggerProblem]:
    """Return why a job cannot follow another."""
    key = followed.casefold()
    spec = specs.get(names.get(key, ""))
    if key not in names:
        near = [names[each] for each in get_close_matches(key, names)]
        hint = f"Did you mean {' or '.join(near)}?" if near else "Deploy both jobs together."
        message = f"{name} follows the job {followed}, which does not exist."
    elif spec is not None and spec.batch is None:
        hint = "A stream has no runs that end. Name a batch job."
        message = f"{name} follows the job {followed}, which is a stream."
    else:
        return []
    return [TriggerProblem(name, "unknown_job", message, hint)]


def _find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of a cycle, the first one again at its end; nothing if there is none."""
    finished = set[str]()
    for start in edges:
        path = [start]
        branches = [iter(edges[start])]
        while branches:
            following = next(branches[-1], None)
            if following is None:
                branches.pop()
                finished.add(path.pop())
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in finished:
                path.append(following)
                branches.append(iter(edges[following]))
    return []
