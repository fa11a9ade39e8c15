"""The plan of a rollback: which version runs again, and which state it continues from.

Sinks that write each batch once remember the last batch: files in their log, tables in a ledger or
in the table itself. They silently skip the batches of a run that begins with an older state. So a
rollback never begins with a state that is older than what the sinks have. Versions that continue
each other's state are one lineage, and only the newest state of a lineage is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.control.jobs.decisions import judge_versions
from headrace.errors import VersionNotFound
from headrace.model.deployment import Job, JobVersion, PlannedJob, Savepoint, VersionOrigin
from headrace.model.job import JobDecision
from headrace.model.lifecycle import SavepointState
from headrace.store.database import Tx
from headrace.store.jobs import jobs, savepoints

_SHOWN = 100


def plan_rollback(tx: Tx, job: Job, current: JobVersion, number: int | None) -> PlannedJob:
    """Return the plan of a rollback of a locked job.

    Args:
        number: Number of the version; None: the one deployed before.

    Raises:
        VersionNotFound: The job has no such version.
    """
    target = _find_target(tx, job, current, number)
    reason = f"a user returns to version {target.version} (revision {target.revision})"
    planned = PlannedJob(
        name=job.name,
        decision=JobDecision.RESTART_FROM_SAVEPOINT,
        reason=reason,
        spec=target.spec,
    )
    newest = find_newest(jobs.list_origins(tx, job.id), target.version)
    source = current if newest in {current.version, None} else _find_with_state(tx, job, newest)
    obstacle = _find_obstacle(source, target)
    if obstacle is None and source.id == current.id:
        return planned.model_copy(update={"path_source": current.spec})
    savepoint = None if obstacle else _find_savepoint(tx, job, source)
    if savepoint is not None:
        update = {
            "path_source": source.spec,
            "restores_from": savepoint.id,
            "is_other_lineage": True,
        }
        return planned.model_copy(update=update)
    cause = obstacle or f"the newest state of version {source.version} was not saved"
    return planned.model_copy(
        update={
            "decision": JobDecision.RESTART_CLEAN,
            "reason": f"{reason}; it begins without state: {cause}",
        }
    )


def find_newest(origins: Sequence[VersionOrigin], number: int) -> int | None:
    """Return the version that began last of those in the lineage of a version.

    Return None if no version of the lineage has run.
    """
    deployed = sorted((each for each in origins if each.has_state), key=lambda each: each.revision)
    parents: dict[int, int | None] = {}
    for each in deployed:
        parents.setdefault(each.version, each.parent)
    first = _find_first(parents, number)
    members = [each.version for each in deployed if _find_first(parents, each.version) == first]
    return members[-1] if members else None


def _find_first(parents: Mapping[int, int | None], number: int) -> int:
    """Return the version that began without state and whose state a version has continued."""
    parent = parents.get(number)
    while parent is not None and parent < number:
        number, parent = parent, parents.get(parent)
    return number


def _find_target(tx: Tx, job: Job, current: JobVersion, number: int | None) -> JobVersion:
    deployed = [
        version for version in jobs.history(tx, job.id, _SHOWN) if version.outcome == "deployed"
    ]
    others = [
        version
        for version in deployed
        if version.id != current.id and (number is None or version.version == number)
    ]
    if others:
        return others[0]
    wanted = "earlier version" if number is None else f"version {number}"
    known = ", ".join(str(version.version) for version in deployed) or "none"
    raise VersionNotFound(
        f"The job {job.name} has no {wanted} to return to. Deployed versions: {known}."
    )


def _find_with_state(tx: Tx, job: Job, number: int | None) -> JobVersion:
    found = None if number is None else jobs.find_with_state(tx, job.id, number)
    assert found is not None
    return found


def _find_obstacle(source: JobVersion, target: JobVersion) -> str | None:
    """Return why a version cannot continue from the state of another one, or None if it can."""
    if source.version == target.version:
        return None
    judged = judge_versions(source.spec, target.spec)
    if judged.is_compatible:
        return None
    return f"version {source.version} has continued its state since, and {judged.reason}"


def _find_savepoint(tx: Tx, job: Job, source: JobVersion) -> Savepoint | None:
    """Return the copy of the state with which a version has ended; None if there is none."""
    listed = savepoints.list_of_jobs(tx, [job.id])
    newest = next((each for each in listed if each.version == source.version), None)
    if newest is None or newest.state is not SavepointState.VERIFIED:
        return None
    return newest if newest.run == source.last_run else None
