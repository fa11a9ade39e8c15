"""The audit: who did, read, or was refused what.

A change of rights or of the cluster is recorded in its transaction. Reads and refusals are far more
frequent: a node collects them, and writes them together once a second. A node that is killed loses
the reads and refusals of its last second.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from headrace.config.sections import AuditedReads, AuditSettings
from headrace.control.policy import Action, Caller, Shared, require
from headrace.errors import StoreUnavailable
from headrace.files.private_files import open_private_log
from headrace.model.audit import AuditAction, AuditRecord, NewAuditRecord
from headrace.model.statement import Statement
from headrace.store import audit
from headrace.store.database import Database, Tx
from headrace.text.readable import format_utc

_LOG = logging.getLogger("headrace.audit")
_MAX_PENDING = 1000
"""Largest number of records between two writes, so that no caller can fill the store."""
_MAX_REFUSALS = 20
"""Different refusals of a caller between two writes; further ones are one record."""
_MAX_CALLERS = 20
_BATCH = 1000


class Audit:
    """The audit of one node, which also reads the records of the other nodes."""

    def __init__(self, database: Database, settings: AuditSettings, node_id: str) -> None:
        self._database = database
        self._reads = settings.reads
        self._file: Path | None = settings.file
        self._node_id = node_id
        self._guard = threading.Lock()
        self._pending: dict[str, _Pending] = {}
        self._lost = 0
        self._refused: Counter[tuple[str | None, str | None]] = Counter()
        """Different refusals that are collected, by user and address."""

    def record_in(
        self,
        tx: Tx,
        action: AuditAction,
        caller: Caller,
        *,
        target: str | None = None,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        """Record what a caller does, in the transaction that does it."""
        new = _describe(action, caller, target, detail)
        records = audit.append(tx, [new], node_id=self._node_id)
        tx.on_end(lambda is_committed: self._write_lines(records if is_committed else []))

    def record_read(self, caller: Caller, statement: Statement, rows: int | None) -> None:
        """Record that a caller reads rows of a statement.

        Args:
            rows: Number of the rows; None: it is not known.
        """
        is_own = statement.owner == caller.owner
        if self._reads is AuditedReads.ALL or (self._reads is AuditedReads.OTHERS and not is_own):
            new = _describe(
                AuditAction.RESULT_READ, caller, statement.id, {"owner": statement.owner}
            )
            self._collect(new, rows)

    def record_refusal(
        self, action: AuditAction, caller: Caller | None, address: str, detail: Mapping[str, object]
    ) -> None:
        """Record that a request was refused.

        Args:
            caller: Sender of the request; None: it is not known.
            address: IP address from which it came.
        """
        new = _describe(action, caller, None, detail)
        self._collect(replace(new, address=address), None)

    def flush(self) -> None:
        """Write the collected records. Keep them while the store does not answer."""
        with self._guard:
            pending, self._pending, lost = self._pending, {}, self._lost
            self._lost = 0
            self._refused.clear()
        if lost:
            _LOG.error("%d records of the audit are lost: the store did not take them", lost)
        keys = list(pending)
        for start in range(0, len(keys), _BATCH):
            batch = [pending[key].complete() for key in keys[start : start + _BATCH]]
            try:
                with self._database.write("audit.flush") as tx:
                    records = audit.append(tx, batch, node_id=self._node_id)
            except StoreUnavailable:
                with self._guard:
                    self._pending = {key: pending[key] for key in keys[start:]} | self._pending
                raise
            self._write_lines(records)

    def page(
        self,
        caller: Caller,
        *,
        action: AuditAction | None = None,
        actor: str | None = None,
        target: str | None = None,
        before: str | None,
        limit: int,
    ) -> list[AuditRecord]:
        """Return at most `limit` records, newest first. Raise NotPermitted.

        Args:
            action: Only records about this action; None: about all. The same for actor and target.
        """
        require(caller, Action.READ, Shared.AUDIT)
        with self._database.read() as tx:
            return audit.page(
                tx, action=action, actor=actor, target=target, before=before, limit=limit
            )

    def _collect(self, new: NewAuditRecord, rows: int | None) -> None:
        with self._guard:
            if new.action is AuditAction.REQUEST_DENIED and repr(new) not in self._pending:
                new = self._limit(new)
            key = repr(new)
            present = self._pending.get(key)
            if present is None and len(self._pending) >= _MAX_PENDING:
                self._lost += 1
            elif present is None:
                self._pending[key] = _Pending(new, rows)
            else:
                present.add(rows)

    def _limit(self, new: NewAuditRecord) -> NewAuditRecord:
        """Return a refusal, without its detail if the caller has had many different ones.

        No caller can take the place of the records of others.
        """
        caller = (new.actor, new.address)
        self._refused[caller] += 1
        is_listed = self._refused[caller] <= _MAX_REFUSALS and len(self._refused) <= _MAX_CALLERS
        return new if is_listed else replace(new, detail={"code": "more"})

    def _write_lines(self, records: Sequence[AuditRecord]) -> None:
        if self._file is None or not records:
            return
        lines = "".join(f"{_to_json(record)}\n" for record in records)
        try:
            # A collector may have renamed the file since the last line.
            with open_private_log(self._file) as log:
                log.write(lines.encode())
        except OSError as error:
            _LOG.error("the setting audit.file: %s cannot be written: %s", self._file, error)


class _Pending:
    """Equal records that are written as one."""

    def __init__(self, new: NewAuditRecord, rows: int | None) -> None:
        self._new = new
        self._rows = rows
        self._times = 1

    def add(self, rows: int | None) -> None:
        self._times += 1
        self._rows = None if self._rows is None or rows is None else self._rows + rows

    def complete(self) -> NewAuditRecord:
        is_read = self._new.action is AuditAction.RESULT_READ
        # The number of polls for the first rows says nothing about reads.
        counts = {} if is_read and self._rows is None else {"times": self._times}
        rows = {"rows": self._rows} if is_read else {}
        return replace(self._new, detail={**self._new.detail, **counts, **rows})


def _describe(
    action: AuditAction,
    caller: Caller | None,
    target: str | None,
    detail: Mapping[str, object] | None,
) -> NewAuditRecord:
    return NewAuditRecord(
        action=action,
        actor=None if caller is None else caller.actor,
        token_id=None if caller is None else caller.token_id,
        address=None if caller is None else caller.address,
        target=target,
        detail=dict(detail or {}),
    )


def _to_json(record: AuditRecord) -> str:
    return json.dumps({**asdict(record), "at": format_utc(record.at)}, sort_keys=True)
