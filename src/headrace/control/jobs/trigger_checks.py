"""Checks of the jobs that follow others: each must exist, and none may follow itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.deploy.schedule import to_table_key
from headrace.model.deployment import VersionSpec
from headrace.model.run import TriggerSource, TriggerSourceKind
from headrace.model.schedule import Schedule

_MOST_FOLLOWERS = 100
"""Jobs of an owner that a job or a table starts: the transaction of its end or change notes it for
each of them."""


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
    problems += _find_crowds(specs)
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
    tables = {to_table_key(name): name for name in rule.list_tables()}
    return [
        *(
            TriggerSource(TriggerSourceKind.JOB, name.casefold(), name)
            for name in rule.list_upstream()
        ),
        *(TriggerSource(TriggerSourceKind.TABLE, key, name) for key, name in tables.items()),
    ]


def list_source_keys(spec: VersionSpec) -> set[tuple[TriggerSourceKind, str]]:
    """Return what identifies the jobs and tables that start the runs of a version."""
    return {(source.kind, source.key) for source in list_sources(_find_rule(spec))}


def list_upstream(spec: VersionSpec | None) -> list[str]:
    """Return the names of the jobs that a version follows."""
    rule = _find_rule(spec)
    return [] if rule is None else rule.list_upstream()


def has_sources(spec: VersionSpec | None) -> bool:
    """Return whether jobs or tables start the runs of a version."""
    return bool(list_sources(_find_rule(spec)))


def _find_rule(spec: VersionSpec | None) -> Schedule | None:
    """Return the schedule of a version; None: it has none."""
    return None if spec is None or spec.batch is None else spec.batch.rules.schedule


def _find_crowds(specs: Mapping[str, VersionSpec | None]) -> list[TriggerProblem]:
    """Return a problem for each job and table that too many jobs follow."""
    followers: dict[tuple[TriggerSourceKind, str], list[str]] = {}
    for name, spec in specs.items():
        for source in list_sources(_find_rule(spec)):
            followers.setdefault((source.kind, source.key), []).append(name)
    hint = "Let some of them follow one of the others."
    return [
        TriggerProblem(
            names[-1],
            "too_many_followers",
            f"{len(names)} jobs follow the {kind} {key}, and at most {_MOST_FOLLOWERS} can.",
            hint,
        )
        for (kind, key), names in followers.items()
        if len(names) > _MOST_FOLLOWERS
    ]


def _find_writers(specs: Mapping[str, VersionSpec | None]) -> dict[str, list[str]]:
    """Return the names of the batch jobs that write to a table, by the key of the table."""
    writers: dict[str, list[str]] = {}
    for name, spec in specs.items():
        target = None if spec is None or spec.batch is None else spec.manifest.get("target-table")
        if isinstance(target, str):
            writers.setdefault(to_table_key(target), []).append(name)
    return writers


def _list_table_keys(spec: VersionSpec | None) -> list[str]:
    sources = list_sources(_find_rule(spec))
    return [each.key for each in sources if each.kind is TriggerSourceKind.TABLE]


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
