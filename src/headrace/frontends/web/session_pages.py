"""The pages of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.errors import HeadraceError, SessionEnded
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.serializers import session_body
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import (
    Question,
    ask,
    copy_object,
    is_confirmed,
    make_router,
    redirect,
    render,
    show_json,
)
from headrace.frontends.web.statement_pages import ALL, ITEMS, EventCursor, read_events, show_begin
from headrace.model.lifecycle import SESSION, SessionState
from headrace.model.session import Session
from headrace.text.readable import describe_count

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
    read_page = partial(
        node_of(request).sessions.page, caller, id_prefix=None, all_owners=owner == ALL
    )
    sessions = read_page(states=chosen[state], before=before, limit=ITEMS + 1)
    hidden = 0 if sessions else len(read_page(states=None, before=None, limit=ITEMS))
    last = node_of(request).statements.find_last(caller, sessions[:ITEMS])
    return render(
        request,
        "sessions.html",
        caller=caller,
        sessions=sessions[:ITEMS],
        hidden=hidden,
        most=ITEMS,
        last={name: (each, show_begin(each.spec.text)) for name, each in last.items()},
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
@router.get("/sessions/{session}/close")
def render_session(
    request: Request, caller: Authenticated, session: SessionPath, events: EventCursor = None
) -> Response:
    """Show a session: its driver, how long it stays, its configuration, what happened to it."""
    return _show_session(request, caller, session, events)


def _show_session(
    request: Request,
    caller: Caller,
    session: str,
    events: str | None = None,
    refusal: HeadraceError | None = None,
) -> Response:
    node = node_of(request)
    found = node.sessions.get(caller, session)
    now = node.read_clock()
    return render(
        request,
        "session.html",
        caller=caller,
        refusal=refusal,
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
    """Ask, then close a session, and show it again."""
    form = await read_form(request)
    sessions = node_of(request).sessions
    found = await run_in_threadpool(sessions.get, caller, session)
    question = _ask_to_close(found)
    is_open = found.state in SESSION.live and found.state is not SessionState.CLOSING
    if is_open and not is_confirmed(form, question):
        return ask(request, caller, question)
    try:
        await run_in_threadpool(sessions.close, caller, found.id)
    except SessionEnded:
        pass  # It has ended before: the page shows how.
    except HeadraceError as error:
        return await run_in_threadpool(_show_session, request, caller, found.id, refusal=error)
    return redirect(f"../{found.id}")


def _ask_to_close(session: Session) -> Question:
    losses = ["Its temporary views, variables and settings are lost."]
    if session.streams:
        count = describe_count(session.streams, "streaming query", "streaming queries")
        losses.insert(0, f"{count} of it will stop.")
    if session.active:
        losses.insert(0, f"{describe_count(session.active, 'statement')} of it will be cancelled.")
    return Question(
        f"Close the session {session.name or session.id}?",
        losses,
        "Close the session",
        f"../{session.id}",
        count=1 + session.active + session.streams,
    )


@router.get("/sessions/{session}/json")
def show_session_as_json(request: Request, caller: Authenticated, session: SessionPath) -> Response:
    """Show a session as the API does."""
    return show_json(session_body(node_of(request).sessions.get(caller, session)))
