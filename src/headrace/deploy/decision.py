"""What a deployment does to one job: the graph of the seed, as a pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.deploy.compatibility import Compatibility
from headrace.model.job import JobDecision, OnQueryChange


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the decision about a job depends on."""

    name: str
    is_new: bool
    """Whether no manifest of this job was deployed before."""
    is_running: bool
    configuration_changed: bool
    """Whether the fingerprint of the configuration differs. A changed query is a change too."""
    query_changed: bool
    """Whether the fingerprint of the query differs."""
    found_state: Literal["savepoint", "checkpoint"] | None
    """The state from which a job that does not run can continue."""
    on_query_change: OnQueryChange
    compatibility: Compatibility | None = None
    """Whether the new query can continue from the state of the old; None: it was not judged."""
    changed_keys: Sequence[str] = ()
    """Keys of the manifest whose values have changed, for the reason."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and why it was made."""

    decision: JobDecision
    reason: str
    hint: str | None = None
    """What the user can do, for an error."""


def decide(facts: JobFacts) -> Decided:
    """Return what a deployment does to a job.

    The graph: a new job starts clean. A running job without changes is left alone. A changed job
    starts clean if its query has changed, and otherwise from its savepoint; a running job is
    stopped with a savepoint first. A job that does not run and has not changed continues from its
    latest state. `on-query-change` only affects changed queries.
    """
    if facts.is_new:
        return Decided(JobDecision.START_CLEAN, "The job is new.")
    if facts.query_changed:
        return _decide_changed_query(facts)
    if facts.configuration_changed:
        return _decide_changed_configuration(facts)
    if facts.is_running:
        return Decided(JobDecision.NONE, "The job is running, and nothing has changed.")
    if facts.found_state is None:
        return _no_state(facts, "The job is not running, and nothing has changed")
    reason = (
        f"The job is not running, and nothing has changed. It continues from its latest"
        f" {facts.found_state}."
    )
    return Decided(JobDecision.RESUME_LATEST, reason)


def _decide_changed_query(facts: JobFacts) -> Decided:
    change = f"The query has changed ({_list_keys(facts)})"
    if facts.on_query_change is OnQueryChange.REFUSE:
        return Decided(
            JobDecision.ERROR,
            f"{change}, and the manifest has `on-query-change: refuse`.",
            "Undo the change, or set on-query-change to reset (the job starts without state) or to"
            " keep-compatible.",
        )
    if facts.on_query_change is OnQueryChange.RESET:
        return Decided(JobDecision.RESTART_CLEAN, f"{change}. The job starts without state.")
    obstacle = _find_obstacle(facts)
    if obstacle is not None:
        return Decided(
            JobDecision.RESTART_CLEAN, f"{change}. The job starts without state: {obstacle}"
        )
    return Decided(
        JobDecision.RESTART_FROM_SAVEPOINT,
        f"{change}. The new query is compatible with the state, and continues from"
        f" {_name_state(facts)}.",
    )


def _find_obstacle(facts: JobFacts) -> str | None:
    """Return why a changed query cannot keep the state, or None if it can."""
    if facts.compatibility is None:
        return "it is not known whether the state is compatible."
    if not facts.compatibility.is_compatible:
        return facts.compatibility.reason
    if not facts.is_running and facts.found_state is None:
        return "neither a savepoint nor a checkpoint was found."
    return None


def _decide_changed_configuration(facts: JobFacts) -> Decided:
    change = f"The configuration has changed ({_list_keys(facts)})"
    if not facts.is_running and facts.found_state is None:
        return _no_state(facts, f"The job is not running. {change}, and the query has not")
    return Decided(
        JobDecision.RESTART_FROM_SAVEPOINT,
        f"{change}, and the query has not. The job continues from {_name_state(facts)}.",
    )


def _name_state(facts: JobFacts) -> str:
    if facts.is_running:
        return "the savepoint with which it is stopped"
    if facts.found_state == "checkpoint":
        return "a savepoint that is made of its latest checkpoint"
    return "its latest savepoint"


def _no_state(facts: JobFacts, situation: str) -> Decided:
    return Decided(
        JobDecision.ERROR,
        f"{situation}, but neither a savepoint nor a checkpoint was found.",
        f"Start it without state: `headrace job start {facts.name} --clean`. Return to an earlier"
        f" version: `headrace job rollback {facts.name}`. Or change the query and deploy it, which"
        " starts the job without state: `headrace deploy PATH`.",
    )


def _list_keys(facts: JobFacts) -> str:
    return ", ".join(facts.changed_keys) or "keys unknown"
