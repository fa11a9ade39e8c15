"""The pages of webhooks, and of the messages to each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.outbox.service import WebhookStatus, WebhookTest
from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.errors import HeadraceError
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.routes.webhooks import webhook_body
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
from headrace.frontends.web.statement_pages import ALL, ITEMS
from headrace.model.delivery import RECENT_MESSAGES
from headrace.model.ids import looks_like_id

_PAGES = {"rn": "runs", "st": "statements", "sq": "streams"}
"""Pages of the subjects of messages, by the begin of their ids."""

router = make_router()

WebhookPath = Annotated[str, Path(max_length=120)]
DeliveryPosition = Annotated[str | None, Query(pattern=r"^dl_[0-9a-f]{32}$")]


class WebhookPageAction(StrEnum):
    """What a page offers to do with a webhook."""

    TEST = "test"
    DELETE = "delete"


@router.get("/webhooks")
def render_webhooks(
    request: Request,
    caller: Authenticated,
    owner: str = "mine",
    before: Annotated[str | None, Query(pattern=r"^wh_[0-9a-f]{32}$")] = None,
) -> Response:
    """List webhooks, newest first."""
    node = node_of(request)
    found = node.webhooks.page(caller, before=before, limit=ITEMS + 1, all_owners=owner == ALL)
    return render(
        request,
        "webhooks.html",
        caller=caller,
        now=node.read_clock(),
        rows=found[:ITEMS],
        recent_messages=RECENT_MESSAGES,
        quote=_quote,
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=found[ITEMS - 1].id if len(found) > ITEMS else None,
    )


@router.get("/webhooks/{webhook}")
@router.get("/webhooks/{webhook}/test")
@router.get("/webhooks/{webhook}/delete")
def render_webhook(
    request: Request,
    caller: Authenticated,
    webhook: WebhookPath,
    before: DeliveryPosition = None,
) -> Response:
    """Show a webhook: whether its messages arrive, its actions, and the last messages."""
    return _show_webhook(request, caller, webhook, before=before)


def _show_webhook(
    request: Request,
    caller: Caller,
    webhook_id: str,
    *,
    before: str | None = None,
    outcome: WebhookTest | None = None,
    refusal: HeadraceError | None = None,
) -> Response:
    node = node_of(request)
    status = node.webhooks.get(caller, webhook_id)
    found = node.webhooks.deliveries(caller, status.id, before=before, limit=ITEMS + 1)
    path = f"webhooks/{_quote(status.id)}"
    return render(
        request,
        "webhook.html",
        caller=caller,
        now=node.read_clock(),
        refusal=refusal,
        outcome=outcome,
        status=status,
        webhook=status.webhook,
        path=path,
        actions=_list_actions(caller, status),
        deliveries=found[:ITEMS],
        link_subject=_link_subject,
        recent_messages=RECENT_MESSAGES,
        before=before,
        next=found[ITEMS - 1].id if len(found) > ITEMS else None,
        copies=copy_object(path, f"headrace webhook deliveries {status.id}"),
    )


def _quote(webhook_id: str) -> str:
    """Return an id as a part of a path: that of a webhook of the settings has a slash."""
    return quote(webhook_id, safe="")


def _list_actions(caller: Caller, status: WebhookStatus) -> list[WebhookPageAction]:
    if not may(caller, Action.CHANGE, status.webhook):
        return []
    is_stored = status.webhook.owner is not None
    return [WebhookPageAction.TEST, *([WebhookPageAction.DELETE] if is_stored else [])]


def _link_subject(subject: str) -> str | None:
    """Return the page of what a message is about; None: it has no page."""
    object_id = subject.partition("/")[0]
    page = _PAGES.get(object_id.partition("_")[0])
    return f"{page}/{object_id}" if page and looks_like_id(object_id) else None


@router.get("/webhooks/{webhook}/json")
def show_webhook_as_json(request: Request, caller: Authenticated, webhook: WebhookPath) -> Response:
    """Show a webhook as the API does."""
    return show_json(webhook_body(node_of(request).webhooks.get(caller, webhook)))


@router.post("/webhooks/{webhook}/{action}")
async def act_on_webhook_from_page(
    request: Request, caller: Authenticated, webhook: WebhookPath, action: WebhookPageAction
) -> Response:
    """Test a webhook, and show the answer of its endpoint; or delete it. Ask before a deletion."""
    form = await read_form(request)
    service = node_of(request).webhooks
    status = await run_in_threadpool(service.get, caller, webhook)
    question = _ask_before_deletion(status)
    if action is WebhookPageAction.DELETE and not is_confirmed(form, question):
        return ask(request, caller, question)
    outcome = None
    try:
        if action is WebhookPageAction.DELETE:
            await run_in_threadpool(service.delete, caller, status.id)
            return redirect("../../webhooks")
        outcome = await run_in_threadpool(service.test, caller, status.id)
    except HeadraceError as error:
        return await run_in_threadpool(_show_webhook, request, caller, status.id, refusal=error)
    return await run_in_threadpool(_show_webhook, request, caller, status.id, outcome=outcome)


def _ask_before_deletion(status: WebhookStatus) -> Question:
    losses = ["It receives no events any more, and the list of its messages is deleted."]
    if status.recent.waiting:
        losses.append("Messages that wait to be sent are lost.")
    return Question(
        f"Delete the webhook {status.webhook.name}?",
        losses,
        "Delete the webhook",
        f"../{_quote(status.id)}",
    )
