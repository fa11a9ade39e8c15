"""Checks of the jobs that follow others: each must exist, and none may follow itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.control.jobs.drafts import JobDraft
from headrace.model.deployment import ManifestError, VersionSpec


@dataclass(frozen=True, slots=True)
class TriggerProblem:
    """What is wrong with the jobs that a job follows."""

    job: str
    code: str
    message: str
    hint: str


def find_trigger_errors(
    drafts: Sequence[JobDraft], others: Mapping[str, VersionSpec | None]
) -> list[ManifestError]:
    """Return the errors of the jobs that follow others when a deployment is applied.

    Args:
        drafts: The jobs of the deployment.
        others: What the other deployed jobs of the owner do, by their names.
    """
    by_name = {draft.name: draft for draft in drafts}
    specs = {**others, **{name: draft.spec for name, draft in by_name.items()}}
    return [
        # A deployment can delete a job that one without a manifest follows.
        by_name.get(each.job, drafts[0]).error(each.code, each.message, each.hint)
        for each in find_trigger_problems(specs)
        if drafts
    ]


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
    edges = {
        name: [names[each.casefold()] for each in followed if each.casefold() in names]
        for name, followed in upstream.items()
    }
    cycle = _find_cycle(edges)
    if cycle:
        message = f"The jobs follow each other in a cycle: {' → '.join(cycle)}."
        hint = "Remove one of the names from the `after` of its job."
        problems.append(TriggerProblem(cycle[0], "cyclic_schedule", message, hint))
    return problems


def list_upstream(spec: VersionSpec | None) -> list[str]:
    """Return the names of the jobs that a version follows."""
    rule = None if spec is None or spec.batch is None else spec.batch.rules.schedule
    return [] if rule is None else rule.list_upstream()


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
