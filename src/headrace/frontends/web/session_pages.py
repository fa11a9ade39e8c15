"""The pages of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, may, visible_owners
from headrace.errors import SessionEnded
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.serializers import session_body
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import copy_object, make_router, redirect, render, show_json
from headrace.frontends.web.statement_pages import ALL, ITEMS, EventCursor, read_events
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import Session

router = make_router()

SessionPath = Annotated[str, Path(max_length=1024)]


@router.get("/sessions")
def render_sessions(
    request: Request,
    caller: Authenticated,
    state: str = "live",
    owner: str = "mine",
    before: Annotated[str | None, Query(pattern=r"^se_[0-9a-f]{32}$")] = None,
) -> Response:
    """List sessions, newest first."""
    chosen: Mapping[str, Sequence[SessionState] | None] = {
        **{each.value: [each] for each in SessionState},
        "live": [each for each in SessionState if each in SESSION.live],
        ALL: None,
    }
    state = state if state in chosen else "live"
    sessions = node_of(request).sessions.page(
        caller,
        states=chosen[state],
        before=before,
        id_prefix=None,
        limit=ITEMS + 1,
        all_owners=owner == ALL,
    )
    return render(
        request,
        "sessions.html",
        caller=caller,
        sessions=sessions[:ITEMS],
        ends={each.id: find_end(each) for each in sessions[:ITEMS]},
        states=["live", *SessionState],
        state=state,
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=sessions[ITEMS - 1].id if len(sessions) > ITEMS else None,
        now=node_of(request).read_clock(),
    )


@router.get("/sessions/{session}")
def render_session(
    request: Request, caller: Authenticated, session: SessionPath, events: EventCursor = None
) -> Response:
    """Show a session: its driver, how long it stays, its configuration, what happened to it."""
    node = node_of(request)
    found = node.sessions.get(caller, session)
    now = node.read_clock()
    return render(
        request,
        "session.html",
        caller=caller,
        now=now,
        session=found,
        body=session_body(found),
        end=find_end(found),
        may_close=found.state in SESSION.live
        and found.state is not SessionState.CLOSING
        and may(caller, Action.CHANGE, found),
        events=read_events(request, caller, found.id, events),
        copies=copy_object(f"sessions/{found.id}", f"headrace session show {found.id}"),
    )


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """When a rule will close a session."""

    at: datetime
    reason: str

    def left(self, now: datetime) -> float:
        """Return the seconds until then."""
        return max(0.0, (self.at - now).total_seconds())


def find_end(session: Session) -> SessionEnd | None:
    """Return when and why a live session will be closed; None if no rule closes it."""
    if session.state not in SESSION.live or session.state is SessionState.CLOSING:
        return None
    ends: list[tuple[datetime, str]] = []
    if session.ttl_seconds is not None:
        ends.append((session.created_at + timedelta(seconds=session.ttl_seconds), "its age"))
    begin = session.last_used_at or session.started_at
    is_used = session.active > 0 or session.streams > 0
    if session.idle_seconds is not None and begin is not None and not is_used:
        ends.append((begin + timedelta(seconds=session.idle_seconds), "idle"))
    return SessionEnd(*min(ends)) if ends else None


@router.post("/sessions/{session}/close")
async def close_from_page(
    request: Request, caller: Authenticated, session: SessionPath
) -> Response:
    """Close a session, and show it again."""
    await read_form(request)
    sessions = node_of(request).sessions
    found = await run_in_threadpool(sessions.get, caller, session)
    # It may have ended before: the page shows how.
    with suppress(SessionEnded):
        await run_in_threadpool(sessions.close, caller, found.id)
    return redirect(f"../{found.id}")


@router.get("/sessions/{session}/json")
def show_session_as_json(request: Request, caller: Authenticated, session: SessionPath) -> Response:
    """Show a session as the API does."""
    return show_json(session_body(node_of(request).sessions.get(caller, session)))
