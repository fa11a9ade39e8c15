"""Progress of running statements.

Progress is not a change of state: a save appends no event and wakes no subscriber.
"""

from __future__ import annotations

from sqlalchemy import bindparam, update

from headrace.model.lifecycle import IN_FLIGHT
from headrace.model.progress import Progress
from headrace.model.session import DriverLease
from headrace.store.database import Tx
from headrace.store.tables import statements

_SAVE = (
    update(statements)
    .where(
        statements.c.id == bindparam("statement"),
        statements.c.session_id == bindparam("session"),
        statements.c.epoch == bindparam("lease_epoch"),
        statements.c.state.in_(sorted(IN_FLIGHT)),
    )
    .values(progress=bindparam("reported"))
)


def save(tx: Tx, lease: DriverLease, progress: dict[str, Progress]) -> int:
    """Save the progress of a driver's statements, by statement id.

    Return the number of statements whose progress was saved. A statement that the driver does not
    own, or that is no longer in flight, is ignored.
    """
    names = {"session": lease.session_id, "lease_epoch": lease.epoch}
    return sum(
        tx.execute(_SAVE, {**names, "statement": statement_id, "reported": report}).rowcount
        for statement_id, report in progress.items()
    )
