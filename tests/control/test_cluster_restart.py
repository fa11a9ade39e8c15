"""A restart of a whole cluster: the nodes together keep to the budget of a backend."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import update
from tests.support.in_process_node import make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.store.clock import clock
from headrace.store.tables import sessions

_SESSIONS = 30
_POLLS = 5
_WINDOW = 2  # seconds


def test_the_questions_about_drivers_stay_within_the_budget(
    tmp_path: Path, postgres_url: str
) -> None:
    def settings(name: str) -> Settings:
        return make_settings(
            tmp_path / name,
            store={"url": postgres_url},
            lease={"renew": "200ms", "sweep": "50ms"},
            cluster={"backend_polls": _POLLS},
        )

    launcher = ScriptedLauncher()
    with serve_node(settings("one"), launcher) as node:
        # Each session has a statement in flight, so that its driver is looked for.
        for _number in range(_SESSIONS):
            session_id, driver = node.start_session()
            node.submit("INSERT INTO t VALUES (1)", session=session_id)
            driver.claim()

    with ExitStack() as nodes:
        first, second = (
            nodes.enter_context(serve_node(settings(name), launcher)) for name in ("one", "two")
        )

        def are_resolved() -> bool:
            for node in (first, second):
                node.let_judge()
            with first.database.write("test") as tx:
                # The drivers of the node that has ended do not renew their leases.
                driven = update(sessions).where(sessions.c.epoch == 1)
                tx.execute(driven.values(lease_until=clock(-3600)))
            page = first.http.get("/api/v1/statements", params={"state": "failed"}).json()
            return len(page["items"]) == _SESSIONS

        wait_until(are_resolved, seconds=120, what="every lost driver is confirmed")

    times = launcher.question_times
    busiest = max(sum(start <= time < start + _WINDOW for time in times) for start in times)
    assert len(times) >= _SESSIONS
    # After a pause, the polls of one second may come at once. The polls of another second are
    # allowed because this test sees a poll when it is made, not when the store grants it.
    assert busiest <= _POLLS * (_WINDOW + 2) < _SESSIONS
