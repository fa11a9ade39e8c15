"""Recipes: the steps and earlier faults that lead a scenario to a fault point.

The ordinary work of a session passes every point that has no recipe.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.plan import Fault

CHEAP = [
    "query",
    "query",
    "setting",
    "table",
    "insert",
    "failing",
    "local",
    "slow",
    "twice",
    "stored",
]
FREEZES = ["short_freeze", "long_freeze", "freeze_all"]
USUAL = [
    *CHEAP,
    *("cancel", "cancel", "timeout", "queue_timeout", "bounce", "killed_node"),
    *FREEZES,
    *("terminated_driver", "full_queue", "stream", "view", "job", "drained_node"),
    *("paused_stream", "table_stream", "lost_start", "connection"),
]
HARMS_DRIVERS = {"stuck", "stuck_beside", "terminated_driver", "lost_host", "lost_start"}
"""Steps after which a driver is gone. Only these, and faults in drivers, may cost a lease."""
HARMS_DRIVERS_OF_EMBEDDED_NODE = {"bounce", "bounced_job", "drained_node", "early_driver"}
"""Steps that end the drivers of an embedded node, in addition."""

LAUNCH_CLAIMED = "store launch.claim"
DRIVER_STARTED = "launcher launch:start"
DRIVER_FENCED = "store takeover.fence"
OVERDUE_POLLED = "launcher takeover:poll#2"
LEASE_RENEWED = "link lease_renewal:renew"
START_REPORTED = "link loop:started"
END_REPORTED = "link loop:ended"
TABLE_STEP = "link transaction:transact"
WRITE_LOCK_REQUESTED = "link locks:begin_write"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps of history.py, and the faults that lead to the point."""

    steps: tuple[str, ...]
    first: tuple[Fault, ...] = ()


def find_recipe(point: str) -> Recipe | None:
    """Return the recipe of a point; None if ordinary work passes it."""
    return RECIPES.get(point)


_NEW_SESSION = Recipe(("renew_session", "query"))
_SLOW = Recipe(("slow", "query"))
_JOB = Recipe(("job",))
_BATCH_JOB = Recipe(("batch_job",))
_CONNECTION = Recipe(("connection",))
_STUCK = Recipe(("stuck", "query"))
_FREEZE_DRIVER = Fault(LEASE_RENEWED, "before", "freeze", hit=2)
_KILL_WRITER = Recipe(("insert", "query"), (Fault(WRITE_LOCK_REQUESTED, "after", "kill"),))
_KILL_TWO_WRITERS = (
    Fault(TABLE_STEP, "before", "kill", hit=3),
    Fault(TABLE_STEP, "before", "kill", hit=7),
)
_KILL_AFTER_START = Recipe(_NEW_SESSION.steps, (Fault(DRIVER_STARTED, "after", "kill"),))

RECIPES = {
    "store statement.cancel": Recipe(("cancel",)),
    "store stream.act": Recipe(("paused_stream",)),
    # The next attempt of a query finds the marker of the one before.
    "link function:find_marked": Recipe(("paused_stream",)),
    "link secret_values:find_streams": Recipe(("stream",)),
    "link function:announce_writes": Recipe(("table_stream",)),
    "store link.announce_writes": Recipe(("table_stream",)),
    "store link.begin_generation": Recipe(("view",)),
    "link planner:begin_generation": Recipe(("view",)),
    "store link.carry_out": Recipe(("view",)),
    "link intents:carry_out": Recipe(("view",)),
    "store jobs.plan": _JOB,
    "store jobs.apply": _JOB,
    "store jobs.act": _JOB,
    "store jobs.expire_plans": Recipe(("old_plan",)),
    "store operation.plan": _JOB,
    "store operation.claim": _JOB,
    "store operation.step": _JOB,
    "store operation.renew": _JOB,
    "store operation.prune": _JOB,
    "store operation.release": Recipe(("bounced_job",)),
    "store schedule.fire": _BATCH_JOB,
    "store run.step": _BATCH_JOB,
    "store run.request": _BATCH_JOB,
    "store run.backfill": _BATCH_JOB,
    "store run.repair": _BATCH_JOB,
    "store run.cancel": _BATCH_JOB,
    "store run.cancel#2": _BATCH_JOB,
    "store session.cancel_queue": Recipe(("long_queue",)),
    "store session.expire": Recipe(("aged",)),
    "store statement.time_out": Recipe(("timeout",)),
    "launcher launch:find": _KILL_AFTER_START,
    "store launch.adopt": _KILL_AFTER_START,
    "store launch.claim": _NEW_SESSION,
    "launcher launch:start": _NEW_SESSION,
    "store launch.confirm": _NEW_SESSION,
    "store launch.early": Recipe(("early_driver", "query")),
    "store launch.fail": Recipe(("missing",)),
    # During the pause, the driver says goodbye and the session fails.
    "launcher launch:kill": Recipe(
        ("refused",), (Fault(DRIVER_STARTED, "after", "pause", seconds=20.0),)
    ),
    "store link.hello": _NEW_SESSION,
    "store link.move": _NEW_SESSION,
    "link loop:hello": _NEW_SESSION,
    "link loop:restore": _NEW_SESSION,
    "link loop:goodbye": _NEW_SESSION,
    "store link.goodbye": _NEW_SESSION,
    "store connection.open": _CONNECTION,
    "store connection.close": _CONNECTION,
    "link connections:open_connection": _CONNECTION,
    "store session.open": _NEW_SESSION,
    "store session.close": _NEW_SESSION,
    # A driver that dies before this report leaves files to which no result refers.
    END_REPORTED: Recipe(("stored", "stored")),
    # Two drivers die after they have written all rows: the third one recovers the table.
    "store link.recover": Recipe(("table", "query"), _KILL_TWO_WRITERS),
    # The third driver cannot report what it does with the table of the first two.
    "store link.recover#2": Recipe(
        ("table", "query", "recovery", "query"),
        (*_KILL_TWO_WRITERS, Fault(TABLE_STEP, "before", "unreachable", hit=8)),
    ),
    "store recovery.retry": Recipe(("table", "recovery")),
    WRITE_LOCK_REQUESTED: Recipe(("insert",)),
    "store link.begin_write": Recipe(("insert",)),
    # The driver dies between its request and its write: the next driver clears the write.
    "store link.clear_staging": _KILL_WRITER,
    "link orphaned_staging:clear_staging": _KILL_WRITER,
    "store link.renew": Recipe(("stream",)),
    "store link.renew_all": _SLOW,
    "link lease_renewal:renew": _SLOW,
    "store link.started": _SLOW,
    "link loop:started": _SLOW,
    "store link.advanced": _SLOW,
    "link progress:advanced": _SLOW,
    "store link.close_batch": Recipe(("batch",)),
    "store node.register": Recipe(("killed_node", "query")),
    "store node.register#2": Recipe(("query", "forgotten_node", "query")),
    "store node.expire": Recipe(("killed_node", "query")),
    "store node.drain": Recipe(("query", "drained_node", "query")),
    "store node.request_drain": Recipe(("query", "drained_node", "query")),
    "store node.confirm_gone": Recipe(("drained_node",)),
    "store node.stop": Recipe(("query", "bounce", "query")),
    "store node.close_sessions": Recipe(("query", "bounce", "query")),
    "store retention.results": Recipe(("query", "killed_node")),
    "store purge.results": Recipe(("query", "purge")),
    "store retention.idempotency": Recipe(("query", "killed_node")),
    "store retention.statements": Recipe(("query", "killed_node")),
    "store retention.sessions": Recipe(("query", "killed_node")),
    "store retention.streams": Recipe(("query", "killed_node")),
    "store retention.jobs": Recipe(("query", "killed_node")),
    "store retention.node_events": Recipe(("query", "killed_node")),
    "store statement.note_cancel": Recipe(("stuck_beside",)),
    "store takeover.fence": _STUCK,
    "launcher takeover:kill": _STUCK,
    "store backend.pace": _STUCK,
    "store takeover.finish": _STUCK,
    "store takeover.reclaim": Recipe(_STUCK.steps, (Fault(DRIVER_FENCED, "after", "kill"),)),
    "launcher takeover:find": Recipe(_NEW_SESSION.steps, (Fault(LAUNCH_CLAIMED, "after", "kill"),)),
    OVERDUE_POLLED: Recipe(("slow", "query"), (_FREEZE_DRIVER,)),
    "store takeover.extend": Recipe(
        ("slow", "query"), (_FREEZE_DRIVER, Fault(OVERDUE_POLLED, "before", "unreachable"))
    ),
    "link process:goodbye": Recipe(("refused",)),
    "link loop:goodbye#2": Recipe(("slow",), (Fault(START_REPORTED, "before", "kill_jvm"),)),
}
