"""`headrace webhook`: add, list, test and delete webhooks, and list their messages."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.listing import ListColumn, write_page
from headrace.cli.support.readable import format_age_of
from headrace.config.alert_events import AlertEvent
from headrace.errors import EXIT_FAILED
from headrace.text.readable import describe_duration

_FIELDS = (
    *("id", "name", "owner", "host", "events", "jobs", "created_at"),
    *("state", "waiting", "failed", "last_sent_at", "last_failure_at", "last_error"),
)
_COLUMNS = (
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="NAME", text=lambda item: item["name"], flexible=True),
    ListColumn(title="OWNER", text=lambda item: item["owner"] or "(settings)", flexible=True),
    ListColumn(title="HOST", text=lambda item: item["host"], flexible=True),
    ListColumn(title="EVENTS", text=lambda item: ", ".join(item["events"]), flexible=True),
    ListColumn(title="JOBS", text=lambda item: ", ".join(item["jobs"]) or "all", flexible=True),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(
        title="LAST SENT", text=lambda item: format_age_of(item["last_sent_at"]), right=True
    ),
    ListColumn(title="WAITING", text=lambda item: str(item["waiting"]), right=True),
    ListColumn(title="FAILED", text=lambda item: str(item["failed"]), right=True),
)
_DELIVERY_FIELDS = (
    *("id", "kind", "subject", "state", "attempts", "last_error", "last_status"),
    *("created_at", "attempted_at", "next_at", "sent_at", "failed_at"),
)
_DELIVERY_COLUMNS = (
    ListColumn(title="EVENT", text=lambda item: item["kind"]),
    ListColumn(title="SUBJECT", text=lambda item: item["subject"], flexible=True),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="ATTEMPTS", text=lambda item: str(item["attempts"]), right=True),
    ListColumn(title="STATUS", text=lambda item: str(item["last_status"] or ""), right=True),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(title="ERROR", text=lambda item: item["last_error"] or "", flexible=True),
)


@click.group()
def webhook() -> None:
    """Report failed and late runs and more to HTTP endpoints."""


@webhook.command()
@click.argument("name", metavar="NAME")
@click.option("--url", required=True, metavar="URL", help="URL of the endpoint.")
@click.option(
    "--secret",
    required=True,
    metavar="REFERENCE",
    help="Secret that signs the messages: '${secret:NAME}'.",
)
@click.option(
    "--event",
    "events",
    multiple=True,
    required=True,
    type=click.Choice([event.value for event in AlertEvent]),
    help="What it receives; can be repeated.",
)
@click.option(
    "--job", "jobs", multiple=True, metavar="NAME", help="Only of this job; * stands for any text."
)
@click.option("--owner", metavar="OWNER", help="For the objects of group:NAME, a group of yours.")
@with_context
def add(context: CommandContext, **fields: Any) -> None:
    """Add a webhook. Test it with `headrace webhook test NAME`."""
    created = context.connect().create(
        "webhooks", {key: value for key, value in fields.items() if value is not None}
    )
    context.terminal.notice(f"The webhook {created['name']} of {created['owner']} is added.")


@webhook.command("list")
@options.all_owners
@options.before
@options.limit
@options.output
@with_context
def list_webhooks(
    context: CommandContext,
    *,
    all_owners: bool,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List your webhooks and those of your groups, newest first."""
    page = context.connect().page(
        "webhooks", before=before, limit=limit, all_owners="true" if all_owners else None
    )
    write_page(context.terminal, page, _FIELDS, output_format, _COLUMNS)


@webhook.command()
@click.argument("name", metavar="WEBHOOK")
@with_context
def delete(context: CommandContext, *, name: str) -> None:
    """Delete a webhook, and the messages that wait for it."""
    deleted = context.connect().remove("webhooks", name)
    context.terminal.notice(f"The webhook {deleted['name']} of {deleted['owner']} is deleted.")


@webhook.command()
@click.argument("name", metavar="WEBHOOK")
@with_context
def test(context: CommandContext, *, name: str) -> None:
    """Send a test message now, and print what the endpoint answers."""
    outcome = context.connect().act("webhooks", name, "test")
    duration = describe_duration(float(outcome["seconds"]))
    if outcome["error"] is None:
        context.terminal.notice(f"The endpoint answered {outcome['status']} after {duration}.")
    else:
        context.terminal.warn(f"error: The test failed after {duration}: {outcome['error']}.")
    if outcome["response"]:
        context.terminal.out.write(outcome["response"] + "\n")
    if outcome["error"] is not None:
        raise click.exceptions.Exit(EXIT_FAILED)


@webhook.command()
@click.argument("name", metavar="WEBHOOK")
@options.before
@options.limit
@options.output
@with_context
def deliveries(
    context: CommandContext,
    *,
    name: str,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List the messages to a webhook, newest first."""
    page = context.connect().deliveries(name, before=before, limit=limit)
    write_page(context.terminal, page, _DELIVERY_FIELDS, output_format, _DELIVERY_COLUMNS)
