"""The events that webhooks report. The commands import them without the settings."""

from __future__ import annotations

from enum import StrEnum


class AlertEvent(StrEnum):
    """What a webhook reports."""

    RUN_FAILED = "run.failed"
    RUN_LATE = "run.late"
    EXPECTATION_VIOLATED = "expectation.violated"
    STREAM_BACKOFF = "stream.backoff"
    CREDENTIAL_EXPIRING = "credential.expiring"
