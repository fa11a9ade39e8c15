"""The pages of lists and single objects, as a browser without scripts shows them."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update
from tests.support.browsers import Browser, Page, resolve
from tests.support.executions import make_execution, make_stage
from tests.support.identities import create_tokens
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.errors import StatementFailed
from headrace.frontends.web import rendering
from headrace.frontends.web.rendering import _environment
from headrace.frontends.web.statement_pages import divide_time
from headrace.model.execution import SparkOperator, SparkStageState
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import (
    JobState,
    MaterializedViewState,
    NodeState,
    SavepointState,
    SessionState,
    StatementState,
    StreamState,
    TransactionState,
)
from headrace.model.statement import Progress, Statement, StatementSpec
from headrace.store.clock import clock
from headrace.store.tables import nodes as node_table
from headrace.store.tables import sessions as session_table
from headrace.store.tables import statements as statement_table

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>&amp;"


def run(node: InProcessNode, session: str, driver: ScriptedDriver, text: str, **end: object) -> str:
    statement_id = str(node.submit(text, session=session)["id"])
    driver.claim()
    driver.succeed(statement_id, **end)  # type: ignore[arg-type]
    return statement_id


def show_statement(browser: Browser, statement_id: str) -> Page:
    page = browser.open(f"statements/{statement_id}")
    assert page.response.status_code == 200, page.text
    return page


def test_the_list_shows_state_sql_reason_and_rows(node: InProcessNode, browser: Browser) -> None:
    assert "There are no statements yet." in browser.open("statements").text
    session, driver = node.start_session(name="etl")
    run(node, session, driver, "SELECT\n  1")
    failed = str(node.submit("SELECT nothing", session=session)["id"])
    driver.claim()
    driver.report_end(
        failed,
        StatementState.FAILED,
        failure=Failure.of(StatementFailed("There is no column 'nothing'.")),
    )
    first = str(node.submit("DROP TABLE a", session=session)["id"])
    node.submit("DROP TABLE b", session=session)
    driver.claim()
    page = browser.open("statements")
    assert "SELECT 1" in page.text
    assert "There is no column 'nothing'." in page.text
    assert "1 running statement" in page.text or first in page.text
    states = {
        str(each["class"]) for _tag, each in page.tags if "state " in (each.get("class") or "")
    }
    assert states == {f"state {each}" for each in ("success", "failed", "waiting", "launched")}
    assert "etl" in page.text
    only_failed = browser.open("statements?state=failed")
    assert "SELECT nothing" in only_failed.text
    assert "DROP TABLE" not in only_failed.text
    hidden = "No statement matches the filter, which hides 4 statements."
    assert hidden in browser.open("statements?state=cancelled").text


def test_the_list_has_pages_without_a_gap(node: InProcessNode, browser: Browser) -> None:
    session = node.session()
    ids = [str(node.submit(f"SELECT {number}", session=session)["id"]) for number in range(60)]
    seen: list[str] = []
    link: str | None = "statements?state=waiting"
    while link is not None:
        page = browser.open(link)
        found = [each for each in page.links if "statements/st_" in each]
        seen += [each.rpartition("/")[2] for each in found]
        older = [each for each in page.links if "before=" in each]
        assert all("state=waiting" in each for each in older)
        link = resolve(page, older[0]) if older else None
    assert seen == ids[::-1]


def test_a_list_of_statements_is_small_and_a_refresh_without_a_change_is_empty(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    text = f"SELECT '{'é' * 100_000}'"
    ids = [str(node.submit(text, session=session)["id"]) for _number in range(50)]
    driver.claim()
    page = browser.open("statements")
    assert len(page.response.content) <= 150 * 1024
    [region] = [values for _tag, values in page.tags if values.get("id") == "live"]
    link, shown = str(region["hx-get"]), str(region["data-shown"])

    def refresh(link: str) -> httpx.Response:
        headers = {"HX-Request": "true", "If-None-Match": f'"{shown}"'}
        return browser.http.get(f"statements{link}", headers=headers)

    # The address of a list that follows names its first row.
    [region] = [
        values for _tag, values in browser.open(f"statements{link}").tags if "data-shown" in values
    ]
    shown = str(region["data-shown"])
    same = refresh(link)
    assert (same.status_code, same.content) == (304, b"")
    # Those who load the page get it.
    loaded = browser.http.get(f"statements{link}", headers={"If-None-Match": f'"{shown}"'})
    assert loaded.status_code == 200
    driver.succeed(ids[0])
    driver.claim()
    assert refresh(link).status_code == 200


@pytest.mark.parametrize(
    "link", ["statements/a%2Fb", "statements/%2E%2E%2Fx", "catalog/a%2Fb/c", "sessions/x%2fy/z"]
)
def test_an_error_page_below_an_escaped_slash_links_to_the_folder_of_the_pages(
    browser: Browser, link: str
) -> None:
    page = browser.open(link)
    assert page.response.status_code in {400, 404}
    for each in page.links:
        if not each.startswith("#"):
            assert browser.http.get(resolve(page, each)).is_success, each


@pytest.mark.parametrize("link", ["statements?before=x", "sessions?before=st_1"])
def test_a_link_with_a_wrong_position_is_an_error_page(browser: Browser, link: str) -> None:
    page = browser.open(link)
    assert page.response.status_code == 400
    assert "text/html" in page.response.headers["content-type"]


def test_a_running_statement_says_what_it_waits_for_and_can_be_stopped(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    first = str(node.submit("DROP TABLE a", session=session)["id"])
    driver.claim()
    second = str(node.submit("DROP TABLE b", session=session)["id"])
    page = show_statement(browser, second)
    assert f"The statement {first} runs alone in the session." in page.text
    assert f"../statements/{first}" in page.links
    page = browser.submit(page, f"statements/{second}/cancel")
    assert page.response.url.path == f"/ui/statements/{second}"
    assert "cancelled" in page.text
    assert f"../statements/{second}/cancel" not in page.actions
    # A second tab shows the button still.
    page = browser.submit(page, f"statements/{second}/cancel")
    assert page.response.status_code == 200
    page = browser.submit(show_statement(browser, first), f"statements/{first}/cancel")
    assert "It is being cancelled: the driver has not confirmed it yet." in page.text
    driver.report_end(first, StatementState.CANCELLED)
    assert "Cancelling" not in show_statement(browser, first).text


STARTED = Progress(**dict.fromkeys(Progress.model_fields, 0) | {"jobs": 1, "tasks_total": 2})


@pytest.mark.parametrize(
    ("progress", "tasks_active", "said"),
    [
        (None, None, "Spark had begun no job of it"),
        (STARTED, None, "the driver has not reported yet that no task of it runs"),
        (STARTED, 0, "0 tasks of it run in Spark"),
        (STARTED, 1, "1 task of it did not end when Spark killed them"),
    ],
    ids=["no job", "no report", "no task", "a task"],
)
def test_a_stop_shows_the_request_the_confirmation_and_what_still_runs(
    node: InProcessNode,
    browser: Browser,
    progress: Progress | None,
    tasks_active: int | None,
    said: str,
) -> None:
    session, driver = node.start_session()
    statement_id = str(node.submit("SELECT 1", session=session)["id"])
    driver.claim()
    assert "Stop asked" not in show_statement(browser, statement_id).text
    node.http.post(f"/api/v1/statements/{statement_id}/cancel", json={})
    page = show_statement(browser, statement_id)
    owner = node.http.get(f"/api/v1/statements/{statement_id}").json()["owner"]
    assert f"done asked by {owner}, 20" in page.text
    assert "open the driver has not confirmed the stop yet" in page.text
    driver.report_end(statement_id, StatementState.CANCELLED, progress=progress)
    if tasks_active is not None:
        driver.report_executions({statement_id: make_execution(tasks_active=tasks_active)})
    page = show_statement(browser, statement_id)
    assert "done the driver has confirmed the stop, 20" in page.text
    assert said in page.text
    # The driver may report more.
    is_followed = "data-live-every" in page.response.text
    assert is_followed == (progress is not None and tasks_active is None)


def test_a_stop_of_a_lost_driver_is_proved_by_the_end_of_its_process(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    statement_id = str(node.submit("SELECT 1", session=session)["id"])
    driver.claim()
    node.http.post(f"/api/v1/statements/{statement_id}/cancel", json={})
    node.launcher.report_exit(session, "killed by a signal")
    path = f"/api/v1/statements/{statement_id}"
    wait_until(lambda: node.http.get(path).json()["state"] == "cancelled", what="it is resolved")
    page = show_statement(browser, statement_id)
    assert "the driver's process has ended, and every task with it" in page.text


def test_a_stop_before_a_driver_has_claimed_the_statement_says_so(
    node: InProcessNode, browser: Browser
) -> None:
    statement_id = str(node.submit("SELECT 1", session=node.session())["id"])
    node.http.post(f"/api/v1/statements/{statement_id}/cancel", json={})
    page = show_statement(browser, statement_id)
    assert "no driver works on it" in page.text
    assert "has confirmed" not in page.text


def test_a_driver_whose_lease_has_ended_is_named_as_lost_and_the_time_stops(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "1h"})
    session, driver = node.start_session()
    statement_id = str(node.submit("SELECT 1", session=session)["id"])
    driver.claim()
    with Browser(node) as browser:
        assert "Driver lost" not in show_statement(browser, statement_id).text
        with node.database.write("test") as tx:
            tx.execute(update(session_table).values(lease_until=clock(-3600)))
        page = show_statement(browser, statement_id)
    assert "Driver lost : no sign of life since 20" in page.text
    # The time of the lease is before that of the claim.
    assert "starting: 0 s" in page.text


def test_an_error_has_a_caret_below_its_place(node: InProcessNode, browser: Browser) -> None:
    session, driver = node.start_session()
    statement_id = str(node.submit("SELECT a,\n  nothing", session=session)["id"])
    driver.claim()
    failure = Failure(code="statement_failed", message="No such column.", line=2, column=3)
    driver.report_end(statement_id, StatementState.FAILED, failure=failure)
    text = show_statement(browser, statement_id).response.text
    assert '  nothing\n<span class="caret" aria-label="position of the error">  ^</span>' in text
    assert "line 2, column 3" in text


@pytest.mark.parametrize("place", [(2, 2**31 - 1), (2**31 - 1, 1), (3, 1), (1, 11)])
def test_a_place_that_is_not_in_the_text_has_no_caret(
    node: InProcessNode, browser: Browser, place: tuple[int, int]
) -> None:
    """A driver is a stranger: it may report any place."""
    session, driver = node.start_session()
    statement_id = str(node.submit("SELECT a,\n  nothing", session=session)["id"])
    driver.claim()
    line, column = place
    failure = Failure(code="statement_failed", message="No.", line=line, column=column)
    driver.report_end(statement_id, StatementState.FAILED, failure=failure)
    page = show_statement(browser, statement_id)
    assert 'class="caret"' not in page.response.text
    assert len(page.response.content) < 20_000


def test_a_long_text_is_shown_in_part_and_without_secrets(
    node: InProcessNode, browser: Browser
) -> None:
    session = node.session()
    lines = "\n".join(f"  {number}," for number in range(100_000))
    long = str(node.submit(f"SELECT\n{lines}\n  0", session=session)["id"])
    page = show_statement(browser, long)
    assert "The page shows the begin of" in page.text
    assert len(page.response.content) < 200_000
    padding = "x" * 3990
    secret = f"SELECT '{padding}' AS a, 'hunter2' AS password, map('password', 'hunter2')"
    node.submit(secret, session=session)
    node.submit("SELECT 1 /* */, map('password', 'hunter2')", session=session)
    assert "hunter2" not in browser.open("statements").text


def test_rows_that_cannot_be_shown_leave_the_rest_of_the_page(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    name = "n" * 100_000
    struct = {
        "type": "struct",
        "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}}],
    }
    result = inline_result([("x", struct)], [[{name: 1}]] * 1000)
    statement_id = run(node, session, driver, "SELECT 1 AS x", result=result)
    page = show_statement(browser, statement_id)
    assert "The names of struct fields" in page.text
    assert "SELECT 1 AS x" in page.text
    assert len(page.response.content) < 50_000


def test_a_result_shows_null_empty_and_equal_names_as_they_are(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    columns = [
        ("x", "string"),
        ("x", "long"),
        ("nested", {"type": "array", "elementType": "long", "containsNull": True}),
    ]
    rows = [[None, 2**62, [1, None]], ["", None, None], ["a" * 5000, 3, []]]
    statement_id = run(
        node, session, driver, "SELECT 1", result=inline_result(columns, rows, truncated=True)
    )
    page = show_statement(browser, statement_id)
    html = page.response.text
    assert html.count("<th>x ") == 2
    assert html.count('<span class="null">NULL</span>') == 3
    assert "<td></td>" in html
    assert str(2**62) in page.text
    assert "a" * 1000 + "…" in page.text
    assert "a" * 1001 not in page.text
    assert "Truncated: the statement has more rows." in page.text
    assert "BIGINT" in page.text or "bigint" in page.text


def test_the_plan_and_the_stages_stay_when_the_driver_is_gone(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    statement_id = run(node, session, driver, "SELECT 1")
    assert "Physical plan" not in show_statement(browser, statement_id).text
    skewed = make_stage(
        3,
        shuffle_bytes_read=5 * 1024 * 1024,
        disk_bytes_spilled=2048,
        median_task_seconds=1.0,
        longest_task_seconds=30.0,
        tasks_failed=1,
    )
    operator = SparkOperator(depth=1, name=f"Exchange {HOSTILE}", metrics={"spill size": "2 KiB"})
    execution = make_execution(
        f"== Physical Plan == {HOSTILE} password=hunter2",
        stages=[make_stage(2), skewed],
        operators=[operator],
        stages_omitted=7,
    )
    driver.report_executions({statement_id: execution})
    page = show_statement(browser, statement_id)
    assert "5.0 MiB" in page.text
    assert "2.0 KiB" in page.text
    assert "30 s skewed" in page.text
    assert page.text.count("skewed") == 1
    assert "2/2, 1 failed" in page.text
    assert "7 further stages were not kept." in page.text
    assert "· Exchange" in page.text
    assert "spill size: 2 KiB" in page.text
    assert "== Physical Plan ==" in page.text
    assert "hunter2" not in page.response.text
    assert page.find_unwanted_tags() == []


def test_a_statement_is_compared_with_the_earlier_runs_of_its_text(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session()
    for number in range(4):
        statement_id = run(node, session, driver, "SELECT 'again'")
        seconds, ago = (2.0, 100.0 - number) if number < 3 else (6.2, 0.0)
        with node.database.write("test.run") as tx:
            change = update(statement_table).where(statement_table.c.id == statement_id)
            begin, end = clock(-ago - seconds), clock(-ago)
            tx.execute(change.values(started_at=begin, ended_at=end))
    stage = make_stage(4, disk_bytes_spilled=9 * 1024**3)
    driver.report_executions({statement_id: make_execution(stages=[stage])})
    text = "3.1 times its median of 3 runs (2 s); stage 4 spilled 9.0 GiB."
    assert text in show_statement(browser, statement_id).text


def test_texts_of_users_run_nowhere(node: InProcessNode, browser: Browser) -> None:
    session, driver = node.start_session(name="etl")
    result = inline_result([(HOSTILE, "string")], [[HOSTILE]])
    good = run(node, session, driver, f"SELECT '{HOSTILE}'", result=result)
    bad = str(node.submit(f"SELECT '{HOSTILE}'", session=session)["id"])
    driver.claim()
    driver.report_end(
        bad,
        StatementState.FAILED,
        failure=Failure(code="statement_failed", message=HOSTILE, line=1, column=1),
    )
    for link in ("statements", f"statements/{good}", f"statements/{bad}"):
        page = browser.open(link)
        assert "alert" in page.text
        assert page.find_unwanted_tags() == []
        assert not [
            name for _, each in page.tags for name in each if name.startswith(("on", "style"))
        ]


def test_the_rows_of_a_driver_are_not_read_for_a_page(
    node: InProcessNode, browser: Browser
) -> None:
    """A page must not wait for a driver, which may hang."""
    session, driver = node.start_session()
    statement_id = str(node.submit("SELECT 1", session=session, result="stored")["id"])
    driver.claim()
    page = show_statement(browser, statement_id)
    assert "Spark has not reported a stage yet." in page.text


def test_every_link_stays_below_the_path_of_a_proxy_and_changes_nothing(
    node: InProcessNode, browser: Browser
) -> None:
    session, driver = node.start_session(name="etl")
    run(node, session, driver, "SELECT 1")
    waiting = str(node.submit("SELECT 2", session=session)["id"])
    todo, seen = ["", "sign-in", f"statements/{waiting}", "statements/st_unknown"], set[str]()
    with node.expect_no_changes():
        while todo:
            link = todo.pop()
            if link in seen:
                continue
            seen.add(link)
            page = browser.open(link)
            is_missing = link == "statements/st_unknown"
            assert page.response.status_code == (404 if is_missing else 200), link
            if "text/html" not in page.response.headers["content-type"]:
                continue
            policy = page.response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert page.response.headers["cache-control"] == "no-store"
            for action in page.actions:
                resolve(page, action)
            found = {resolve(page, each) for each in page.links if not each.startswith("#")}
            todo += sorted(found - seen)
    assert {"statements", "sessions", "nodes"} <= seen
    assert any(each.startswith("assets/headrace.") for each in seen)


def test_files_of_another_version_are_served_without_a_long_life(browser: Browser) -> None:
    page = browser.open("statements")
    link = next(resolve(page, each) for each in page.links if each.endswith(".css"))
    assert "immutable" in browser.http.get(link).headers["cache-control"]
    old = browser.http.get("assets/headrace.0123456789ab.css")
    assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")
    for name in ("headrace.js", "x", "pages.py", "%2e%2e%2fpages.py"):
        assert browser.http.get(f"assets/{name}").status_code == 404


def test_the_script_of_the_pages_is_small() -> None:
    """Phones read the pages, too. The editor and the charts have scripts of their own."""
    script = Path(rendering.__file__).parent / "assets" / "built" / "pages.js"
    assert len(gzip.compress(script.read_bytes())) <= 40_000


def test_a_node_whose_scripts_were_not_built_says_so(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = browser.open("nodes")
    [script] = [str(values["src"]) for tag, values in page.tags if tag == "script"]
    assert browser.http.get(script.removeprefix("./")).status_code == 200
    assert "scripts/setup-web" not in page.text
    monkeypatch.setattr(rendering, "_BUILT", tmp_path)
    page = browser.open("nodes")
    assert "script" not in [tag for tag, _ in page.tags]
    assert "scripts/setup-web" in page.text
    missing = browser.open("assets/pages.js")
    assert missing.response.status_code == 404
    assert "was not built" in missing.text


def test_a_user_sees_own_objects_and_an_auditor_those_of_all(start_node: StartNode) -> None:
    node = start_node(token="secret")
    names = create_tokens(node.database, ["ada", "bob"])
    submitted = node.http.post(
        "/api/v1/statements",
        json={"statement": "SELECT 'of ada'"},
        headers={"Authorization": f"Bearer {names['ada']}"},
    ).json()
    link = f"statements/{submitted['id']}"
    with Browser(node) as bob, Browser(node) as admin:
        bob.sign_in(names["bob"])
        assert "of ada" not in bob.open("statements?owner=all").text
        page = bob.open(link)
        assert page.response.status_code == 404
        assert "of ada" not in page.text
        page = bob.submit(bob.open("statements"), f"{link}/cancel")
        assert page.response.status_code == 404
        admin.sign_in("secret")
        assert "of ada" not in admin.open("statements").text
        assert "of ada" in admin.open("statements?owner=all").text
        assert "of ada" in admin.open(link).text


def test_sessions_and_nodes_are_listed(node: InProcessNode, browser: Browser) -> None:
    assert "You have no live session." in browser.open("sessions").text
    _session, driver = node.start_session(name="etl")
    page = browser.open("sessions")
    assert "etl" in page.text
    assert "Spark 4.1.3" in page.text
    driver.report_spark_failure()
    nodes = browser.open("nodes")
    assert node.address in nodes.text
    assert "up" in nodes.text


def test_a_node_that_gives_no_sign_of_life_is_named_without_an_event(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"renew": "3m"})
    with Browser(node) as browser:
        page = browser.open("nodes")
        assert "silent since" not in page.text
        # An open page asks again: no event says that a lease has ended.
        assert 'data-live-every="5"' in page.response.text
        with node.database.write("test") as tx:
            tx.execute(update(node_table).values(lease_until=clock(-60)))
        assert "silent since 20" in browser.open("nodes").text


def test_new_rows_neither_repeat_nor_hide_rows_of_the_next_page(
    node: InProcessNode, browser: Browser
) -> None:
    session = node.session()
    ids = [str(node.submit("SELECT 1", session=session)["id"]) for _number in range(70)]
    seen: list[str] = []
    link: str | None = f"statements?state=all&session={session}"
    while link is not None:
        page = browser.open(link)
        assert "state=all" in link
        seen += [each.rpartition("/")[2] for each in page.links if "statements/st_" in each]
        node.submit("SELECT 2", session=session)
        older = [each for each in page.links if "before=" in each]
        link = resolve(page, older[0]) if older else None
    assert seen == ids[::-1]
    # A filter begins at its first page: its form has no position.
    assert "before" not in page.hidden


def test_each_state_has_a_shape_of_its_own_kind() -> None:
    macros = _environment().get_template("macros.html").module
    lifecycles = (
        *(StatementState, SessionState, StreamState, JobState, NodeState, SavepointState),
        *(MaterializedViewState, SparkStageState, TransactionState),
    )
    for state in chain.from_iterable(lifecycles):
        shown = str(macros.state(state))  # type: ignore[attr-defined]
        assert "?" not in shown, state


AT = datetime(2026, 1, 1, tzinfo=UTC)
seconds = st.floats(0, 1e6)


@given(seconds, seconds, seconds, st.floats(-1e6, 2e6), st.floats(-1e6, 2e6))
def test_phases_with_stages_add_up_whatever_the_clock_of_the_driver(
    waits: float, starts: float, runs: float, first: float, last: float
) -> None:
    started = AT + timedelta(seconds=waits + starts)
    end = started + timedelta(seconds=runs)
    statement = make_statement(AT + timedelta(seconds=waits), started, end)
    stage = make_stage(
        started_at=AT + timedelta(seconds=first), ended_at=AT + timedelta(seconds=last)
    )
    running = make_stage(1, started_at=None, ended_at=None)
    phases = divide_time(statement, end, make_execution(stages=[stage, running]))
    names = ["waiting", "starting", "analysis", "Spark stages", "commit and result"]
    assert [each.name for each in phases] == names
    assert sum(each.seconds for each in phases) == pytest.approx((end - AT).total_seconds())
    assert all(0 <= each.share <= 100.01 for each in phases)


@given(seconds, st.one_of(st.none(), seconds), seconds, st.booleans())
def test_phases_add_up_to_the_wall_time(
    waits: float, starts: float | None, runs: float, has_ended: bool
) -> None:
    launched = None if starts is None else AT + timedelta(seconds=waits)
    started = None if launched is None else launched + timedelta(seconds=starts or 0)
    end = (started or AT + timedelta(seconds=waits)) + timedelta(seconds=runs)
    statement = make_statement(launched, started, end if has_ended else None)
    phases = divide_time(statement, end)
    assert sum(each.seconds for each in phases) == pytest.approx((end - AT).total_seconds())
    assert all(0 <= each.share <= 100.01 for each in phases)
    assert [each.name for each in phases] == ["waiting", "starting", "running"][: len(phases)]


def make_statement(
    launched: datetime | None, started: datetime | None, ended: datetime | None
) -> Statement:
    fields = dict.fromkeys(Statement.__dataclass_fields__)
    times = {
        "created_at": AT,
        "waiting_since": AT,
        "attempts": int(launched is not None),
        "launched_at": launched,
        "started_at": started,
        "ended_at": ended,
    }
    return Statement(**{**fields, "id": new_id("st"), "spec": StatementSpec(text="x"), **times})  # type: ignore[arg-type]
