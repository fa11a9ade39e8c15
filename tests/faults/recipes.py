"""What a history has to do so that a fault point is passed, and what has to go wrong before.

A point without a recipe of its own is passed by the ordinary work of a session.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.plan import Fault

CHEAP = ["query", "query", "setting", "table", "insert", "failing", "local", "slow", "twice"]
USUAL = [*CHEAP, "cancel", "cancel", "timeout", "queue_timeout", "bounce", "killed_node"]

_CLAIMED = "store headrace.control.sessions.launch.Launches._start"
_STARTED = "launcher headrace.control.sessions.launch.Launches._start:start"
_LOST = "store headrace.control.sessions.takeover.Takeovers._condemned"
_OVERDUE = "launcher headrace.control.sessions.takeover.Takeovers._overdue:poll"
_RENEWED = "link headrace.driver.loop.Loop._renew:renew"
_BEGUN = "link headrace.driver.loop.Loop._report_start:report_start"
_STEP = "link headrace.driver.ctas.transaction.Journal.write:transact"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps of history.py, and faults that lead to the point."""

    steps: tuple[str, ...]
    first: tuple[Fault, ...] = ()


def recipe(point: str) -> Recipe | None:
    """The first that fits by the end of the point's name, its number aside."""
    name = point.partition("#")[0]
    return next((made for end, made in _RECIPES.items() if name.endswith(end)), None)


_FRESH = Recipe(("renew_session", "query"))
_SLOW = Recipe(("slow", "query"))
_STUCK = Recipe(("stuck", "query"))
_FROZEN = Fault(_RENEWED, "before", "freeze", hit=2)

_RECIPES = {
    "cancel.cancel": Recipe(("cancel",)),
    "Expiry._close": Recipe(("aged",)),
    "Expiry._time_out": Recipe(("timeout",)),
    "Launches._adopt:find": Recipe(_FRESH.steps, (Fault(_STARTED, "after", "kill"),)),
    "Launches._adopt": Recipe(_FRESH.steps, (Fault(_STARTED, "after", "kill"),)),
    "Launches._start": _FRESH,
    "Launches._start:start": _FRESH,
    "Launches._started": _FRESH,
    "Launches._refused": Recipe(("missing",)),
    # By then its driver has said goodbye, and the session has failed.
    "Launches._started:kill": Recipe(
        ("refused",), (Fault(_STARTED, "after", "pause", seconds=20.0),)
    ),
    "Link.hello": _FRESH,
    "Loop.run:hello": _FRESH,
    "Loop.run:restore": _FRESH,
    "Loop.run:goodbye": _FRESH,
    "Link.goodbye": _FRESH,
    "Sessions.open": _FRESH,
    "Sessions.close": _FRESH,
    # Both attempts at a table are lost when all is written: it is left to the third driver.
    "TableJournal.recover": Recipe(
        ("table", "query"),
        (Fault(_STEP, "before", "kill", hit=3), Fault(_STEP, "before", "kill", hit=7)),
    ),
    "Link.renew": _SLOW,
    "Loop._renew:renew": _SLOW,
    "Link.started": _SLOW,
    "Loop._report_start:report_start": _SLOW,
    "Link.advanced": _SLOW,
    "ProgressReporter._report_changes:report_progress": _SLOW,
    "Link._quit": Recipe(("batch",)),
    "Locals.run_due": Recipe(("local",)),
    "Node.start": Recipe(("killed_node", "query")),
    "Node.stop": Recipe(("query", "bounce", "query")),
    "Node._close_everything": Recipe(("query", "bounce", "query")),
    "Node._is_there:poll": Recipe(("own_session", "bounce", "query")),
    "Retention.sweep": Recipe(("query", "killed_node")),
    "StuckCancels.sweep": Recipe(("stuck_beside",)),
    "Takeovers._condemned": _STUCK,
    "Takeovers._finish:kill": _STUCK,
    "Takeovers._finish": _STUCK,
    "Takeovers._retaken": Recipe(_STUCK.steps, (Fault(_LOST, "after", "kill"),)),
    "Takeovers._found:find": Recipe(_FRESH.steps, (Fault(_CLAIMED, "after", "kill"),)),
    "Takeovers._overdue:poll": Recipe(("slow", "query"), (_FROZEN,)),
    "Takeovers._overdue": Recipe(
        ("slow", "query"), (_FROZEN, Fault(_OVERDUE, "before", "unreachable"))
    ),
    "main:goodbye": Recipe(("refused",)),
    "Loop._abort:goodbye": Recipe(("slow",), (Fault(_BEGUN, "before", "kill_jvm"),)),
}
