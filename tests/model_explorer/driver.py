"""The steps of one driver, as the driver's loop and the CTAS transaction make them.

Each step is one call of the link, made to the real service of a node, or one effect on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.model_explorer.state import DriverState, World
from tests.support.made_results import inline_result

from headrace.control.driver_link.service import DriverLinkService
from headrace.model.job_messages import TaskDone
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.materialized_view import NameScope, RowStorage, ViewRows, generation_name
from headrace.model.messages import (
    Assignment,
    BeginGeneration,
    Ended,
    Hello,
    NewView,
    Poll,
    Renew,
    Started,
    Transact,
)
from headrace.model.session import DriverLease
from headrace.model.transaction import Staged

SESSION = "se_" + "1" * 32
STATEMENT = "st_" + "1" * 32
STAGED = Staged(kind="session", catalog="c", identity="here", target="`d`.`t`", record={})
_HELLO = Hello(pid=1, spark_version="4", application_id="app", ui_url=None, keeps_tables=True)
_RESULT = inline_result([("x", "integer")], [[1]])
_ROWS = ViewRows(
    path=["spark_catalog", "default", "v"],
    storage=RowStorage.GENERATIONS,
    scope=NameScope(catalog="spark_catalog", namespace=["default"]),
)
_VIEW = NewView(identity=STAGED.identity, rows=_ROWS)
Change = Callable[[World, DriverState, DriverLinkService], World]
"""Makes a step of a driver; returns the world after it. Raises LeaseLost."""


def list_steps(driver: DriverState, kind: str) -> Iterator[tuple[str, Change]]:
    """Yield the next steps of a driver that runs a statement of this kind.

    Args:
        kind: `query`, `insert`, `endless`, `table` (an atomic CTAS), `view` (a CREATE MATERIALIZED
            VIEW) or `task` (of a job).
    """
    if not driver.renewed and driver.phase not in {"starting", "ending"}:
        yield "renews", _renew
    steps = _STEPS.get((driver.phase, kind)) or _STEPS.get((driver.phase, ""))
    if steps is not None:
        yield steps


def _renew(world: World, driver: DriverState, link: DriverLinkService) -> World:
    link.renewals.renew(_lease(driver), Renew(streams=0))
    return world.with_driver(replace(driver, renewed=True))


def _report_hello(world: World, driver: DriverState, link: DriverLinkService) -> World:
    link.hello(_lease(driver), _HELLO)
    return world.with_driver(replace(driver, phase="idle", renewed=True))


def _poll(world: World, driver: DriverState, link: DriverLinkService) -> World:
    message = Poll(wait_seconds=0, announces_effects=True, separates_queries=True)
    orders = link.poll(_lease(driver), message).orders
    if orders.assignment is not None:
        return world.with_driver(_begin(driver, orders.assignment))
    return world


def _begin(driver: DriverState, assignment: Assignment) -> DriverState:
    entry, attempt = assignment.transaction, assignment.attempt
    if entry is None:
        return replace(driver, phase="assigned", attempt=attempt, transaction=None)
    committing = entry.state is TransactionState.COMMITTING
    phase = "committing" if committing else "aborting"
    return replace(driver, phase=phase, attempt=attempt, transaction=entry.id)


def _report_start(world: World, driver: DriverState, link: DriverLinkService) -> World:
    link.started(_lease(driver), Started(statement_id=STATEMENT))
    return world.with_driver(replace(driver, phase="running"))


def _announce_effects(world: World, driver: DriverState, link: DriverLinkService) -> World:
    link.started(_lease(driver), Started(statement_id=STATEMENT, has_effects=True))
    return world.with_driver(replace(driver, phase="running"))


def _read_rows(world: World, driver: DriverState, _link: DriverLinkService) -> World:
    return world.with_driver(replace(driver, phase="done"))


def _change_data(world: World, driver: DriverState, _link: DriverLinkService) -> World:
    changed = replace(world, effects=world.effects + 1)
    return changed.with_driver(replace(driver, phase="done"))


def _prepare(world: World, driver: DriverState, link: DriverLinkService) -> World:
    name = f"tx_{driver.epoch:016}{driver.attempt:016}"
    return _transact(world, driver, link, name, TransactionState.PREPARED, "prepared")


def _begin_generation(world: World, driver: DriverState, link: DriverLinkService) -> World:
    message = BeginGeneration(statement_id=STATEMENT, new=_VIEW)
    answer = link.views.begin_generation(_lease(driver), message)
    if answer.view is None:
        return world.with_driver(replace(driver, phase="stuck"))
    return world.with_driver(replace(driver, phase="numbered", generation=answer.number))


def _prepare_generation(world: World, driver: DriverState, link: DriverLinkService) -> World:
    name = f"tx_{driver.epoch:016}{driver.attempt:016}"
    target = f"`default`.`{generation_name('v', driver.generation)}`"
    staged = STAGED.model_copy(update={"target": target})
    return _transact(world, driver, link, name, TransactionState.PREPARED, "prepared", staged)


def _begin_table(world: World, driver: DriverState, link: DriverLinkService) -> World:
    return _transact(world, driver, link, driver.transaction, TransactionState.BEGUN, "begun")


def _commit(world: World, driver: DriverState, link: DriverLinkService) -> World:
    state = TransactionState.COMMITTING
    return _transact(world, driver, link, driver.transaction, state, "committing")


def _publish(world: World, driver: DriverState, _link: DriverLinkService) -> World:
    """Rename the staged table. A repetition finds it published."""
    assert driver.transaction is not None
    if driver.transaction not in world.published:
        world = replace(world, published=(*world.published, driver.transaction))
    return world.with_driver(replace(driver, phase="done"))


def _abort(world: World, driver: DriverState, link: DriverLinkService) -> World:
    state = TransactionState.ABORTING
    return _transact(world, driver, link, driver.transaction, state, "removing")


def _finish_abort(world: World, driver: DriverState, link: DriverLinkService) -> World:
    state = TransactionState.ABORTED
    return _transact(world, driver, link, driver.transaction, state, "assigned")


def _transact(
    world: World,
    driver: DriverState,
    link: DriverLinkService,
    transaction: str | None,
    state: TransactionState,
    phase: str,
    staged: Staged = STAGED,
) -> World:
    assert transaction is not None
    message = Transact(
        id=transaction,
        statement_id=STATEMENT,
        state=state,
        staged=staged if state is TransactionState.PREPARED else None,
    )
    if not link.tables.transact(_lease(driver), message).applied:
        return world.with_driver(replace(driver, phase="stuck"))
    ended = state is TransactionState.ABORTED
    return world.with_driver(
        replace(driver, phase=phase, transaction=None if ended else transaction)
    )


def _report_task(world: World, driver: DriverState, link: DriverLinkService) -> World:
    return _report_success(world, driver, link, TaskDone())


def _report_success(
    world: World,
    driver: DriverState,
    link: DriverLinkService,
    outcome: TaskDone | None = None,
) -> World:
    message = Ended(
        statement_id=STATEMENT,
        state=StatementState.SUCCESS,
        result=_RESULT,
        committed=driver.transaction,
        task_outcome=outcome,
    )
    applied = link.ended(_lease(driver), message).applied
    world = replace(world, acknowledged=world.acknowledged or applied)
    return world.with_driver(replace(driver, phase="idle", transaction=None))


def _lease(driver: DriverState) -> DriverLease:
    return DriverLease(SESSION, driver.epoch)


_STEPS: dict[tuple[str, str], tuple[str, Change]] = {
    ("starting", ""): ("reports hello", _report_hello),
    ("idle", ""): ("polls", _poll),
    ("assigned", "query"): ("reports the start", _report_start),
    ("assigned", "insert"): ("reports the start", _announce_effects),
    ("assigned", "endless"): ("reports the start", _announce_effects),
    ("running", "query"): ("reads rows", _read_rows),
    ("running", "insert"): ("changes data", _change_data),
    ("assigned", "task"): ("reports the start", _announce_effects),
    ("running", "task"): ("does the task", _change_data),
    ("done", "task"): ("reports the success", _report_task),
    ("assigned", "view"): ("begins the generation", _begin_generation),
    ("numbered", "view"): ("prepares the table", _prepare_generation),
    ("assigned", "table"): ("prepares the table", _prepare),
    ("prepared", ""): ("begins the table", _begin_table),
    ("begun", ""): ("commits the table", _commit),
    ("committing", ""): ("publishes the table", _publish),
    ("aborting", ""): ("aborts the table", _abort),
    ("removing", ""): ("has removed the table", _finish_abort),
    ("done", ""): ("reports the success", _report_success),
}
