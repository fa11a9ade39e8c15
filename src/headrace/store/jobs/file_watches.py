"""Jobs that new files start: which node lists them, and which files their runs have used."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import delete, insert, literal, null, select, update

from headrace.model.run import FileState, FileWatch, UsedFile
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import file_watches as table
from headrace.store.tables import run_files, used_files

_SELECT = select(
    table.c.job_id,
    table.c.node_id,
    table.c.epoch,
    table.c.problem,
    nodes.has_lease(table.c.node_id).label("is_held"),
)


def save(tx: Tx, job_id: str) -> None:
    """Let new files start the runs of a locked job. The files that it has used stay used."""
    change = update(table).where(table.c.job_id == job_id)
    # The next claim reads the new schedule.
    values = {"is_paused": False, "epoch": table.c.epoch + 1, "node_id": null(), "problem": None}
    if not tx.execute(change.values(values)).rowcount:
        tx.execute(insert(table).values(job_id=job_id, is_paused=False, epoch=0))


def pause(tx: Tx, job_id: str) -> None:
    """Stop nodes from listing the files of a job."""
    change = update(table).where(table.c.job_id == job_id)
    tx.execute(change.values(is_paused=True, problem=None))


def remove(tx: Tx, job_id: str) -> None:
    """Stop new files from starting the runs of a job, and forget the files that it has used."""
    for each in (table, used_files):
        tx.execute(delete(each).where(each.c.job_id == job_id))


def list_active(tx: Tx) -> list[FileWatch]:
    """Return the watches of all jobs that are not stopped."""
    rows = tx.execute(_SELECT.where(~table.c.is_paused).order_by(table.c.job_id)).mappings()
    return [FileWatch(**row) for row in rows]


def find_problem(tx: Tx, job_id: str) -> str | None:
    """Return why the files of a job cannot start runs, or None."""
    query = select(table.c.problem).where(table.c.job_id == job_id)
    problem: str | None = tx.execute(query).scalar_one_or_none()
    return problem


def find_problems(tx: Tx) -> dict[str, str]:
    """Return why files cannot start runs, by the job."""
    query = select(table.c.job_id, table.c.problem).where(table.c.problem.is_not(None))
    return {row.job_id: row.problem for row in tx.execute(query)}


def claim(tx: Tx, watch: FileWatch, node_id: str) -> FileWatch | None:
    """Let a node list the files of a job, and return its watch; None: it has changed meanwhile."""
    change = update(table).where(
        table.c.job_id == watch.job_id, table.c.epoch == watch.epoch, ~table.c.is_paused
    )
    claimed = replace(watch, node_id=node_id, epoch=watch.epoch + 1, is_held=True)
    values = {"node_id": claimed.node_id, "epoch": claimed.epoch}
    row = tx.execute(change.values(values).returning(table.c.problem)).first()
    return None if row is None else replace(claimed, problem=row.problem)


def lock(tx: Tx, job_id: str, epoch: int) -> FileWatch | None:
    """Lock a watch, and return it; None: it is paused, or was claimed or changed since."""
    query = _SELECT.where(table.c.job_id == job_id, table.c.epoch == epoch, ~table.c.is_paused)
    row = tx.execute(query.with_for_update(of=table)).mappings().one_or_none()
    return None if row is None else FileWatch(**row)


def set_problem(tx: Tx, job_id: str, problem: str | None) -> None:
    """Store why the files of a locked watch cannot start runs."""
    tx.execute(update(table).where(table.c.job_id == job_id).values(problem=problem))


def list_used(tx: Tx, job_id: str) -> dict[str, UsedFile]:
    """Return the files that runs of a job have used, by the digests of their paths."""
    columns = ("path_key", "size", "revision", "file_id", "run_id")
    query = select(*(used_files.c[name] for name in columns))
    return {
        row.path_key: UsedFile(FileState(row.size, row.revision, row.file_id), row.run_id)
        for row in tx.execute(query.where(used_files.c.job_id == job_id))
    }


def use(tx: Tx, job_id: str, files: Mapping[str, UsedFile]) -> None:
    """Store files that runs of a job have used, in place of their earlier states."""
    if not files:
        return
    forget(tx, job_id, files)
    rows = [
        {
            "job_id": job_id,
            "path_key": key,
            "size": used.state.size,
            "revision": used.state.revision,
            "file_id": used.state.file_id,
            "run_id": used.run_id,
        }
        for key, used in files.items()
    ]
    tx.execute(insert(used_files).values(used_at=clock()), rows)


def forget(tx: Tx, job_id: str, keys: Collection[str]) -> None:
    """Remove files that have vanished."""
    of_job = used_files.c.job_id == job_id
    tx.execute(delete(used_files).where(of_job, used_files.c.path_key.in_(keys)))


def insert_run_files(tx: Tx, run_id: str, files: Sequence[str]) -> None:
    """Store the files that a run has to read."""
    tx.execute(insert(run_files), {"run_id": run_id, "files": list(files)})


def copy_run_files(tx: Tx, run_id: str, new_run_id: str) -> None:
    """Let a run read the files of another one, if that has any."""
    found = select(literal(new_run_id), run_files.c.files).where(run_files.c.run_id == run_id)
    tx.execute(insert(run_files).from_select(["run_id", "files"], found))


def list_run_files(tx: Tx, run_id: str) -> list[str]:
    """Return the files that a run has to read."""
    query = select(run_files.c.files).where(run_files.c.run_id == run_id)
    return tx.execute(query).scalar_one_or_none() or []
