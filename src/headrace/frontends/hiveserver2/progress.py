"""What clients show while a statement runs: the progress bar of Beeline, and the log.

Both are made from the statement in the store. A node remembers only which lines of a log a client
has read: a client that changes to another node reads them once more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from headrace.control.policy import Caller
from headrace.frontends.hiveserver2.handles import Handle
from headrace.frontends.hiveserver2.wire import load_protocol
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import Progress, Statement

_MAX_LOGS = 10_000
"""Operations of which a node remembers the lines that were read."""
_IN_PROGRESS, _COMPLETE, _NOT_AVAILABLE = 0, 1, 2
"""Values of `TJobExecutionStatus`. After the last one, Beeline shows no bar again."""
_HEADERS = (
    *("STAGES", "JOBS", "STATUS", "TOTAL", "COMPLETED"),
    *("RUNNING", "PENDING", "FAILED", ""),
)
"""Beeline's bar has nine columns; those after the status count tasks."""
_BAR = "bar"
_NO_PROGRESS = Progress(**dict.fromkeys(Progress.model_fields, 0))


def describe_progress(statement: Statement, *, is_over: bool = False) -> Any:
    """Return the `TProgressUpdateResp` of a statement.

    Args:
        is_over: Whether the client has seen the end. Hive's driver 2.3 asks again for each row, and
            Beeline would show the bar each time.
    """
    progress = statement.progress or _NO_PROGRESS
    stages = f"{progress.stages_done}/{progress.stages_total}"
    pending = max(0, progress.tasks_total - progress.tasks_done - progress.tasks_active)
    counts = (
        *(progress.tasks_total, progress.tasks_done, progress.tasks_active),
        *(pending, progress.tasks_failed),
    )
    status, part = _IN_PROGRESS, progress.tasks_done / max(1, progress.tasks_total)
    if statement.state in STATEMENT.terminal:
        has_succeeded = statement.state is StatementState.SUCCESS
        status, part = (_COMPLETE, 1.0) if has_succeeded else (_NOT_AVAILABLE, part)
    if is_over:
        status = _NOT_AVAILABLE
    begin = statement.started_at or statement.created_at
    return load_protocol().TProgressUpdateResp(
        headerNames=list(_HEADERS),
        rows=[[stages, str(progress.jobs), statement.state.upper(), *map(str, counts), ""]],
        progressedPercentage=min(part, 1.0),
        status=status,
        footerSummary=f"STAGES: {stages}",
        startTime=int(begin.timestamp() * 1000),
    )


class OperationLogs:
    """The logs that the clients of one node read. Its methods run on the event loop."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[Caller, Handle], dict[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self,
        caller: Caller,
        handle: Handle,
        statement: Statement,
        wait_reason: str | None,
        *,
        from_first: bool,
    ) -> list[str]:
        """Return the lines that this client has not read. After the end there are soon none.

        Args:
            wait_reason: Why the statement waits.
            from_first: Whether the client reads the log from its begin.
        """
        with self._lock:
            known = {} if from_first else self._read.pop((caller, handle), {})
            lines = _write_lines(statement, wait_reason)
            self._remember(caller, handle, known | lines)
        return [line for subject, line in lines.items() if known.get(subject) != line]

    def finish_bar(self, caller: Caller, handle: Handle) -> bool:
        """Return whether this client sees the end of the progress for the first time."""
        with self._lock:
            known = self._read.pop((caller, handle), {})
            self._remember(caller, handle, {**known, _BAR: ""})
        return _BAR not in known

    def _remember(self, caller: Caller, handle: Handle, known: dict[str, str]) -> None:
        self._read[caller, handle] = known
        while len(self._read) > _MAX_LOGS:
            self._read.popitem(last=False)

    def forget(self, caller: Caller, handle: Handle) -> None:
        """Free what is kept in memory for an operation."""
        with self._lock:
            self._read.pop((caller, handle), None)


def _write_lines(statement: Statement, wait_reason: str | None) -> dict[str, str]:
    """Return a line for each subject, in the form of HiveServer2's log."""
    lines = {"begin": f"INFO  : Statement {statement.id} in session {statement.session_id}"}
    if statement.state is StatementState.WAITING and wait_reason is not None:
        lines["wait"] = f"INFO  : It waits: {wait_reason}"
    progress = statement.progress
    if progress is not None and progress.stages_total:
        lines["progress"] = (
            f"INFO  : {progress.stages_done} of {progress.stages_total} stages,"
            f" {progress.tasks_done} of {progress.tasks_total} tasks,"
            f" {progress.rows_read} rows read"
        )
    if statement.state in STATEMENT.terminal:
        lines["end"] = f"INFO  : It has ended: {statement.state}"
        if statement.failure is not None:
            lines["failure"] = f"ERROR : {statement.failure.describe()}"
        if statement.note is not None:
            lines["note"] = f"INFO  : {statement.note}"
    return lines
