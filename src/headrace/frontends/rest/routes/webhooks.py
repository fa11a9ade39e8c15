"""`/webhooks`: endpoints that receive events, and the messages to them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from headrace.config.alert_events import AlertEvent
from headrace.control.outbox.service import TEST_KIND, WebhookStatus
from headrace.frontends.http.api_route import (
    AllOwners,
    ApiRoute,
    Before,
    Limit,
    json_response,
    split_page,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import (
    Instant,
    Json,
    RequestModel,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)
from headrace.model.delivery import MAX_JOBS, DeliveryState, EndpointState, Webhook

_WEBHOOK_ID = "wh_0193f4a8c2d17b3e9f60a1b2c3d4e5f6"
_WEBHOOK: Json = {
    "id": _WEBHOOK_ID,
    "owner": "ada",
    "name": "on-call",
    "host": "hooks.example.com",
    "events": ["run.failed", "run.late"],
    "jobs": ["daily-*"],
    "created_at": AT,
}
_WEBHOOK_STATUS: Json = {
    **_WEBHOOK,
    "state": "failing",
    "waiting": 2,
    "failed": 0,
    "last_sent_at": AT,
    "last_failure_at": AT,
    "last_error": "the endpoint answered 500",
}
_DELIVERY: Json = {
    "id": "dl_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "kind": "run.failed",
    "subject": "rn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "state": "waiting",
    "attempts": 2,
    "last_error": "the endpoint answered 500",
    "last_status": 500,
    "attempted_at": AT,
    "created_at": AT,
    "next_at": AT,
    "sent_at": None,
    "failed_at": None,
}
_TEST: Json = {
    "message_id": "dl_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "type": TEST_KIND,
    "status": 200,
    "response": "ok",
    "error": None,
    "seconds": 0.12,
}


@has_examples(
    {
        "name": "on-call",
        "url": "https://hooks.example.com/headrace",
        "secret": "${secret:on-call}",
        "events": ["run.failed", "run.late"],
        "jobs": ["daily-*"],
    }
)
class WebhookRequest(RequestModel):
    """Body of `POST /webhooks`."""

    name: str = Field(json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"})
    """Name, unique among the webhooks of the owner."""
    url: str
    """URL of the endpoint. No response shows it."""
    secret: str
    """Reference to the secret that signs the messages: `${secret:NAME}`. The owner may use it."""
    events: list[AlertEvent] = Field(min_length=1)
    """What the webhook receives."""
    jobs: list[str] = Field(default=[], max_length=MAX_JOBS)
    """Names of jobs, in which `*` stands for any characters. Default: all jobs, and what belongs to
    no job."""
    owner: str | None = None
    """Owner of the objects: the caller, or `group:NAME` for a group of the caller. Default: the
    caller."""


@has_examples(_WEBHOOK)
class WebhookBody(ResponseModel):
    """A webhook."""

    id: str
    """Id of the webhook; of one that the settings declare, `settings/NAME`."""
    owner: str | None
    """Owner of the objects; null: the settings declare it for the objects of all owners."""
    name: str
    """Name of the webhook."""
    host: str
    """Host of its URL. The rest can be a secret."""
    events: list[AlertEvent | str]
    """What it receives."""
    jobs: list[str]
    """Names of the jobs of which it receives events; empty: all."""
    created_at: Instant | None
    """When it was created; null: the settings declare it."""


@has_examples(_WEBHOOK_STATUS)
class WebhookStatusBody(WebhookBody):
    """A webhook, and what became of the last 50 messages to it."""

    state: EndpointState | str
    """How the last attempt to send a message has ended: `failing` after an error, `arriving`
    otherwise; `unused` before the first attempt."""
    waiting: int
    """Messages that wait to be sent, or to be sent again."""
    failed: int
    """Messages that are not sent any more."""
    last_sent_at: Instant | None
    """When the last message has arrived; null: none has."""
    last_failure_at: Instant | None
    """End of the last failed attempt to send a message that has not arrived; null: none."""
    last_error: str | None
    """Why that attempt has failed."""


@has_examples(page_of(_WEBHOOK_STATUS))
class WebhookPage(ResponseModel):
    """A page of webhooks."""

    items: list[WebhookStatusBody]
    """The webhooks, newest first."""
    next: str | None
    """Value of `before` for the next page; null: the page is the last."""


@has_examples(_TEST)
class WebhookTestBody(ResponseModel):
    """What the endpoint of a webhook has answered to a test."""

    message_id: str
    """Value of the header `webhook-id`."""
    type: str
    """Type of the message."""
    status: int | None
    """HTTP status; null: there was no response."""
    response: str
    """Begin of the response."""
    error: str | None
    """Why the test has failed; null: it has not."""
    seconds: float
    """How long it took."""


@has_examples(_DELIVERY)
class DeliveryBody(ResponseModel):
    """A message to a webhook."""

    id: str
    """Id of the message: the header `webhook-id` of each attempt."""
    kind: str
    """The event."""
    subject: str
    """What the message is about, for example the id of a run."""
    state: DeliveryState | str
    """Whether it has arrived."""
    attempts: int
    """Number of attempts to send it, that in progress included."""
    last_error: str | None
    """Why the last attempt has failed."""
    last_status: int | None
    """HTTP status of the last attempt; null: there was no response, or no attempt."""
    attempted_at: Instant | None
    """When the last attempt ended; null: none has."""
    created_at: Instant
    """When the event happened."""
    next_at: Instant | None
    """Time of the next attempt; null: there is none."""
    sent_at: Instant | None
    """When it arrived; null: it has not."""
    failed_at: Instant | None
    """When the attempts ended; null: they have not, or it has arrived."""


@has_examples(page_of(_DELIVERY))
class DeliveryPage(ResponseModel):
    """A page of messages."""

    items: list[DeliveryBody]
    """The messages, newest first."""
    next: str | None
    """Value of `before` for the next page; null: the page is the last."""


WebhookRef = Annotated[str, Path(max_length=120, description="Id or name of the webhook.")]

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=ApiRoute)


@router.post(
    "", status_code=201, response_model=WebhookBody, responses=problems(403, 409, 415, 503)
)
def create_webhook(request: Request, caller: Authenticated, body: WebhookRequest) -> Response:
    """Create a webhook for the objects of the caller, or of one of its groups."""
    created = node_of(request).webhooks.create(
        caller,
        name=body.name,
        url=body.url,
        secret=body.secret,
        events=body.events,
        jobs=body.jobs,
        owner=body.owner,
    )
    return json_response(_describe_webhook(created), 201)


@router.get("", response_model=WebhookPage)
def list_webhooks(
    request: Request,
    caller: Authenticated,
    before: Before = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List the webhooks of the caller and of its groups, newest first."""
    found = node_of(request).webhooks.page(
        caller, before=before, limit=limit + 1, all_owners=all_owners
    )
    page, next_ = split_page(found, limit)
    return json_response(WebhookPage(items=[webhook_body(each) for each in page], next=next_))


@router.get("/{webhook}", response_model=WebhookStatusBody, responses=problems(404, 409))
def show_webhook(request: Request, caller: Authenticated, webhook: WebhookRef) -> Response:
    """Show a webhook."""
    return json_response(webhook_body(node_of(request).webhooks.get(caller, webhook)))


@router.delete("/{webhook}", response_model=WebhookBody, responses=problems(404, 409))
def delete_webhook(request: Request, caller: Authenticated, webhook: WebhookRef) -> Response:
    """Delete a webhook, with the messages that wait for it."""
    return json_response(_describe_webhook(node_of(request).webhooks.delete(caller, webhook)))


@router.post("/{webhook}/test", response_model=WebhookTestBody, responses=problems(404, 409))
def test_webhook(request: Request, caller: Authenticated, webhook: WebhookRef) -> Response:
    """Send a test to a webhook now, and return what its endpoint answers."""
    outcome = node_of(request).webhooks.test(caller, webhook)
    return json_response(fill(WebhookTestBody, outcome, type=TEST_KIND))


@router.get("/{webhook}/deliveries", response_model=DeliveryPage, responses=problems(404, 409))
def list_deliveries(
    request: Request,
    caller: Authenticated,
    webhook: WebhookRef,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """List the messages to a webhook, newest first."""
    found = node_of(request).webhooks.deliveries(caller, webhook, before=before, limit=limit + 1)
    page, next_ = split_page(found, limit)
    return json_response(
        DeliveryPage(items=[fill(DeliveryBody, each) for each in page], next=next_)
    )


def webhook_body(status: WebhookStatus) -> WebhookStatusBody:
    """Return the body of a webhook, and of what became of the last messages to it."""
    return fill(WebhookStatusBody, status.recent, **dict(_describe_webhook(status.webhook)))


def _describe_webhook(webhook: Webhook) -> WebhookBody:
    return fill(WebhookBody, webhook, events=list(webhook.events), jobs=list(webhook.jobs))
