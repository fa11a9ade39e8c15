"""Settings of what nodes send: webhooks, alerts, OpenLineage events."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from headrace.config.alert_events import AlertEvent
from headrace.config.profiles import Section
from headrace.config.sections import SECRET_NAME
from headrace.text.durations import Duration

_LONGEST_URL = 2048


def check_endpoint_url(url: str) -> str:
    """Return the URL of an HTTP endpoint. Raise ValueError, without the URL, if it is none."""
    try:
        parts = urlsplit(url)
        is_endpoint = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError("this is not a URL") from None
    if len(url) > _LONGEST_URL or re.search(r"[^\x21-\x7e]", url):
        raise ValueError(f"a URL has at most {_LONGEST_URL} visible characters of ASCII")
    if parts.scheme not in {"https", "http"} or not is_endpoint:
        raise ValueError("the URL of an endpoint begins with https:// or http:// and a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("the URL of an endpoint has no user, no password and no fragment")
    return url


def check_secret_reference(reference: str) -> str:
    """Return a reference to a secret. Raise ValueError, without the text, if it is none."""
    if re.fullmatch(rf"\$\{{secret:{SECRET_NAME}\}}", reference) is None:
        raise ValueError("this is not a reference to a secret: ${secret:NAME}")
    return reference


_EndpointUrl = Annotated[str, AfterValidator(check_endpoint_url)]
_SecretReference = Annotated[str, AfterValidator(check_secret_reference)]


class WebhookSettings(Section):
    """A webhook for the objects of all owners, or of some."""

    url: _EndpointUrl
    """URL of the endpoint."""
    secret: _SecretReference
    """`${secret:NAME}`, whose value signs the messages: `whsec_` and 24 to 64 bytes in base64."""
    events: list[AlertEvent] = Field(min_length=1)
    """What the webhook reports."""
    owners: list[str] = Field(default=[])
    """Owners of the objects; default: all owners, and the nodes themselves."""
    jobs: list[str] = Field(default=[])
    """Names of jobs, in which `*` stands for any characters; default: all jobs, and what belongs to
    no job."""


class AlertSettings(Section):
    """When webhooks report what takes too long, or expires."""

    late_after: Duration = timedelta(minutes=15)
    """How long after its due time a run of a schedule that has not ended counts as late."""
    backoff_after: Duration = timedelta(minutes=10)
    """How long the failures of a streaming query last before webhooks report them."""
    expiry_notice: Duration = timedelta(days=14)
    """How long before the expiry of a token, or of the certificate of a node, webhooks report it,
    once a day. A token that is valid for less than twice this time is not reported."""


class OutboxSettings(Section):
    """How nodes send messages to webhooks and to the receiver of OpenLineage events."""

    timeout: Duration = Field(default=timedelta(seconds=15), ge=timedelta(milliseconds=100))
    """Longest time of one attempt."""
    retry_for: Duration = timedelta(days=1)
    """How long a message is sent again, with growing delays, before it counts as failed."""
    retention: Duration = timedelta(days=7)
    """How long messages are kept, sent or not; longer than `retry_for`."""
    parallelism: int = Field(default=8, ge=1, le=64)
    """Largest number of messages that a node sends at once. An endpoint gets at most a quarter."""
    private_networks: list[IPv4Network | IPv6Network] = Field(default=[])
    """Networks whose addresses webhooks may have although they are not public, for example
    `10.1.0.0/16`. Others are refused: loopback, private, link-local and reserved addresses."""

    @model_validator(mode="after")
    def _check_retention(self) -> Self:
        """Raise ValueError if messages would be deleted before their last attempt."""
        if self.retention <= self.retry_for:
            raise ValueError("retention must be longer than retry_for")
        return self


class OpenLineageSettings(Section):
    """OpenLineage events about the runs of batch jobs and of streaming queries."""

    url: _EndpointUrl | None = None
    """URL that receives the events by POST, for example `https://host/api/v1/lineage`."""
    file: Path | None = None
    """File to which the node appends each event as a line of JSON, in place of `url`."""
    api_key: _SecretReference | None = None
    """`${secret:NAME}`, whose value is sent as a bearer token."""
    namespace: str = Field(default="headrace", min_length=1, max_length=200)
    """Namespace of the jobs."""

    @property
    def is_enabled(self) -> bool:
        """Whether events are made."""
        return self.url is not None or self.file is not None

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        """Raise ValueError for two targets, or for a key without a URL."""
        if self.url is not None and self.file is not None:
            raise ValueError("url and file exclude each other")
        if self.api_key is not None and self.url is None:
            raise ValueError("api_key needs url")
        return self
