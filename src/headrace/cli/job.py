"""`headrace job`: list, show and control deployed jobs."""

from __future__ import annotations

import json
from typing import Any

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, command_context, with_context
from headrace.cli.support.deployment_progress import follow
from headrace.cli.support.follow import fetch_rows
from headrace.cli.support.listing import ListColumn, write_items, write_object, write_page
from headrace.cli.support.readable import format_age_of
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.text.readable import describe_count, describe_duration

_FIELDS = ("name", "state", "version", "session", "last_batch", "updated_at", "error")
_LIST_COLUMNS = (
    ListColumn(title="NAME", text=lambda item: item["name"], flexible=True),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="VERSION", text=lambda item: item["version"], right=True),
    ListColumn(title="CHANGED", text=lambda item: format_age_of(item["updated_at"]), right=True),
    ListColumn(title="BATCH", text=lambda item: item["last_batch"], right=True),
    ListColumn(title="SESSION", text=lambda item: item["session"], flexible=True),
    ListColumn(title="ERROR", text=lambda item: item["error"], flexible=True),
)
_VERSION_FIELDS = (
    *("version", "revision", "outcome", "decision", "reason", "from_state"),
    *("query_id", "created_at"),
)
_VERSION_COLUMNS = (
    ListColumn(title="VERSION", text=lambda item: item["version"], right=True),
    ListColumn(title="OUTCOME", text=lambda item: item["outcome"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(title="DECISION", text=lambda item: item["decision"]),
    ListColumn(title="REASON", text=lambda item: item["reason"], flexible=True),
    ListColumn(title="FROM", text=lambda item: item["from_state"], flexible=True),
)
_SAVEPOINT_FIELDS = ("id", "version", "state", "files", "bytes", "is_clean", "created_at")
_SAVEPOINT_COLUMNS = (
    ListColumn(title="ID", text=lambda item: item["id"]),
    ListColumn(title="VERSION", text=lambda item: item["version"], right=True),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(title="FILES", text=lambda item: item["files"], right=True),
    ListColumn(title="BYTES", text=lambda item: item["bytes"], right=True),
    ListColumn(title="CLEAN", text=lambda item: item["is_clean"]),
)

_name_argument = click.argument("name", metavar="JOB")
_savepoint_option = click.option(
    "--no-savepoint", is_flag=True, help="Do not copy the state, for example if it is lost."
)


@click.group()
def job() -> None:
    """List, show and control deployed jobs."""


@job.command("list")
@options.all_owners
@options.output
@with_context
def list_jobs(
    context: CommandContext, *, all_owners: bool, output_format: OutputFormat | None
) -> None:
    """List all jobs by name."""
    page = context.connect().jobs(all_owners=all_owners)
    if output_format not in {OutputFormat.JSON, OutputFormat.JSONL}:
        page["items"] = [_summarize(item) for item in page["items"]]
    write_page(context.terminal, page, _FIELDS, output_format, _LIST_COLUMNS)


@job.command()
@_name_argument
@options.output
@with_context
def show(context: CommandContext, *, name: str, output_format: OutputFormat | None) -> None:
    """Show a job, its manifest and its savepoints."""
    _write_job(context.terminal, context.connect().job(name), output_format)


@job.command()
@_name_argument
@options.limit
@options.output
@with_context
def history(
    context: CommandContext, *, name: str, limit: int, output_format: OutputFormat | None
) -> None:
    """List the versions of a job, newest first.

    Each version has the decision of its plan, and the reason.
    """
    page = context.connect().job_versions(name, limit=limit)
    write_page(context.terminal, page, _VERSION_FIELDS, output_format, _VERSION_COLUMNS)


@job.command()
def schema() -> None:
    """Print the JSON Schema of manifests, for editors."""
    # pydantic takes 0.15 s to import, which no other command needs.
    from headrace.deploy.job_schema import build_job_schema  # noqa: PLC0415

    click.echo(json.dumps(build_job_schema(), indent=2))


@job.command()
@_name_argument
@_savepoint_option
@with_context
def stop(context: CommandContext, *, name: str, no_savepoint: bool) -> None:
    """Stop a job with a savepoint."""
    client = context.connect()
    deployment = client.stop_job(name, savepoint=not no_savepoint)
    raise Exit(follow(client, deployment, context.terminal))


@job.command()
@_name_argument
@click.option("--clean", is_flag=True, help="Start without state, as a new version.")
@with_context
def start(context: CommandContext, *, name: str, clean: bool) -> None:
    """Start a stopped or failed job from its latest state."""
    _act(context, name, "start", {"clean": clean})


@job.command()
@_name_argument
@with_context
def savepoint(context: CommandContext, *, name: str) -> None:
    """Copy the state of a job. A running job stops for the copy, and then continues."""
    _act(context, name, "savepoint", None)


@job.command()
@_name_argument
@click.option(
    "--to",
    "version",
    type=click.IntRange(1),
    metavar="VERSION",
    help="Version to return to. Default: the one deployed before.",
)
@with_context
def rollback(context: CommandContext, *, name: str, version: int | None) -> None:
    """Return to an earlier version, with the state of its end."""
    _act(context, name, "rollback", {"version": version})


@job.command()
@_name_argument
@click.option("--yes", "-y", is_flag=True, help="Delete without a question.")
@_savepoint_option
@options.connection_options
def delete(
    *,
    name: str,
    yes: bool,
    no_savepoint: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Stop a job with a savepoint, and remove it. Its savepoints stay."""
    if not yes:
        click.confirm(f"Delete the job {name}?", abort=True, err=True)
    with command_context(server=server, home=home, debug=debug) as context:
        client = context.connect()
        raise Exit(
            follow(client, client.delete_job(name, savepoint=not no_savepoint), context.terminal)
        )


def _describe_lateness(item: Json) -> str | None:
    seconds = item["late_seconds"]
    return None if seconds is None else describe_duration(float(seconds))


_RUN_FIELDS = (
    *("id", "job", "state", "logical_time", "late_seconds", "attempt", "trigger", "reason"),
    *("started_at", "ended_at"),
)
_RUN_COLUMNS = (
    ListColumn(title="RUN", text=lambda item: item["id"]),
    ListColumn(title="JOB", text=lambda item: item["job"], flexible=True),
    ListColumn(title="LOGICAL TIME", text=lambda item: item["logical_time"][:19] + "Z"),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="LATE", text=_describe_lateness, right=True),
    ListColumn(title="ATTEMPT", text=lambda item: item["attempt"] or None, right=True),
    ListColumn(title="WHY", text=lambda item: item["reason"], flexible=True),
)
_INTERVAL_FIELDS = ("start", "end", "state", "refusal")
_INTERVAL_COLUMNS = (
    ListColumn(title="FROM", text=lambda item: item["start"]),
    ListColumn(title="TO", text=lambda item: item["end"]),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="WHY NOT", text=lambda item: item["refusal"], flexible=True),
)
_PARTITIONS_COLUMN = ListColumn(
    title="PARTITIONS", text=lambda item: "; ".join(item["partitions"]), flexible=True
)
_run_argument = click.argument("run_id", metavar="RUN")


@job.command("runs")
@click.argument("name", metavar="[JOB]", required=False)
@click.option("--state", metavar="STATE", help="List only runs in this state.")
@options.all_owners
@options.before
@options.limit
@options.output
@with_context
def list_runs(
    context: CommandContext,
    *,
    name: str | None,
    state: str | None,
    all_owners: bool,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List runs of batch jobs, newest first."""
    page = context.connect().runs(
        job=name, state=state, before=before, limit=limit, all_owners=all_owners
    )
    write_page(context.terminal, page, _RUN_FIELDS, output_format, _RUN_COLUMNS)


@job.command("run")
@_name_argument
@click.option(
    "--at",
    metavar="TIME",
    help="Logical time, with its offset. Default: the last one of the schedule.",
)
@options.output
@with_context
def run_job(
    context: CommandContext, *, name: str, at: str | None, output_format: OutputFormat | None
) -> None:
    """Run a batch job for a logical time."""
    write_object(context.terminal, context.connect().run_job(name, at=at), output_format)


@job.command("show-run")
@_run_argument
@options.output
@with_context
def show_run(context: CommandContext, *, run_id: str, output_format: OutputFormat | None) -> None:
    """Show a run with its statements."""
    write_object(context.terminal, context.connect().run(run_id), output_format)


@job.command()
@_name_argument
@click.option("--from", "start", required=True, metavar="TIME", help="Begin, with its offset.")
@click.option("--to", "end", required=True, metavar="TIME", help="End, with its offset.")
@click.option(
    "--parallel",
    type=click.IntRange(1, 100),
    default=1,
    metavar="N",
    show_default=True,
    help="Largest number of runs at the same time.",
)
@click.option("--dry-run", is_flag=True, help="Only list the intervals.")
@click.option(
    "--partitions",
    is_flag=True,
    help="With --dry-run: run the query, and list the partitions that would change.",
)
@options.output
@with_context
def backfill(
    context: CommandContext,
    *,
    name: str,
    start: str,
    end: str,
    parallel: int,
    dry_run: bool,
    partitions: bool,
    output_format: OutputFormat | None,
) -> None:
    """Run a batch job for all intervals of a time."""
    if partitions and not dry_run:
        raise click.UsageError("--partitions only goes with --dry-run.")
    client = context.connect()
    found = client.backfill_job(name, start, end, parallel=parallel, dry_run=dry_run)
    fields, columns = list(_INTERVAL_FIELDS), list(_INTERVAL_COLUMNS)
    if partitions:
        _find_partitions(client, found)
        fields.append("partitions")
        columns.append(_PARTITIONS_COLUMN)
    context.terminal.notice(_describe_backfill(found))
    write_items(context.terminal, found["intervals"], fields, output_format, columns)
    if found["id"] is not None:
        context.terminal.notice(f"Backfill {found['id']} has begun.")


_EXPECTATION_FIELDS = (
    *("run", "expectation", "on_violation", "result", "rows_in", "violations", "nulls"),
    "condition",
)
_EXPECTATION_COLUMNS = (
    ListColumn(title="RUN", text=lambda item: item["run"]),
    ListColumn(title="EXPECTATION", text=lambda item: item["expectation"], flexible=True),
    ListColumn(title="ON VIOLATION", text=lambda item: item["on_violation"]),
    ListColumn(title="RESULT", text=lambda item: str(item["result"]).replace("_", " ")),
    ListColumn(title="ROWS", text=lambda item: item["rows_in"], right=True),
    ListColumn(title="VIOLATIONS", text=lambda item: item["violations"], right=True),
    ListColumn(title="NULL", text=lambda item: item["nulls"], right=True),
    ListColumn(title="CONDITION", text=lambda item: item["condition"], flexible=True),
)


@job.command("check")
@_name_argument
@click.option("--strict", is_flag=True, help="Fail on violations of `warn` and `drop` also.")
@click.option(
    "--runs",
    "limit",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    show_default=True,
    help="Number of runs to list.",
)
@options.output
@with_context
def check_job(
    context: CommandContext,
    *,
    name: str,
    strict: bool,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """Show the counts of the expectations of a job.

    The exit code is 1 if the last run, or the stream, violates an expectation with `fail`, if its
    counts are not known, or if nothing is counted yet.
    """
    found = context.connect().expectations(name, limit=limit)
    stream, items = found["stream"], found["items"]
    if stream is not None:
        _check_stream(context, stream, strict=strict, output_format=output_format)
        return
    listed = [_list_expectation(item, each) for item in items for each in _expectations_of(item)]
    write_items(context.terminal, listed, _EXPECTATION_FIELDS, output_format, _EXPECTATION_COLUMNS)
    if not items:
        context.terminal.warn(f"No run of {name} has expectations.")
        raise Exit(1)
    checks, failure = items[0]["checks"], items[0]["failure"]
    _report_rows(context, checks)
    if failure is not None:
        context.terminal.warn(failure["message"])
    if any(_is_refused(each, strict=strict) for each in checks["expectations"]):
        raise Exit(1)


_BATCH_FIELDS = ("rows", *_EXPECTATION_FIELDS[1:])
_BATCH_COLUMNS = (
    ListColumn(title="ROWS OF", text=lambda item: item["rows"]),
    *_EXPECTATION_COLUMNS[1:],
)


def _check_stream(
    context: CommandContext, stream: Json, *, strict: bool, output_format: OutputFormat | None
) -> None:
    """Show what the batches of a stream have counted.

    Raise Exit in the cases that `check_job` names.
    """
    total, number = stream["total"], stream["last_batch"]
    parts = {"all batches": total, f"batch {number}": stream["last"]}
    listed = [
        {**each, "rows": rows, "expectation": each["name"], "rows_in": checks["rows_in"]}
        for rows, checks in parts.items()
        for each in checks["expectations"]
        if number is not None or checks is total
    ]
    write_items(context.terminal, listed, _BATCH_FIELDS, output_format, _BATCH_COLUMNS)
    _report_rows(context, total)
    if stream["unknown_batches"]:
        context.terminal.warn(
            f"The counts of {describe_count(stream['unknown_batches'], 'batch', 'batches')} are"
            " not known."
        )
    if stream["failure"] is not None:
        context.terminal.warn(stream["failure"]["message"])
    has_failed = (stream["failure"] or {}).get("code") == "expectation_failed"
    if has_failed or any(_is_refused(each, strict=strict) for each in total["expectations"]):
        raise Exit(1)


def _report_rows(context: CommandContext, checks: Json) -> None:
    if checks["rows_in"] is not None:
        written = checks["rows_written"]
        context.terminal.notice(
            f"{checks['rows_in']} rows in, {checks['rows_dropped']} dropped,"
            f" {'none' if written is None else written} written."
        )


def _expectations_of(item: Json) -> list[Json]:
    expectations: list[Json] = item["checks"]["expectations"]
    return expectations


def _list_expectation(item: Json, expectation: Json) -> Json:
    shown = {"run": item["run"], "expectation": expectation["name"]}
    return {**expectation, **shown, "rows_in": item["checks"]["rows_in"]}


def _is_refused(expectation: Json, *, strict: bool) -> bool:
    """Return whether an expectation lets the command fail."""
    if expectation["result"] == "violated":
        return strict or expectation["on_violation"] == "fail"
    return bool(expectation["result"] == "unknown")


def _describe_backfill(found: Json) -> str:
    """Return how many runs a backfill has, and what they change."""
    runs = [interval for interval in found["intervals"] if interval["refusal"] is None]
    count, target = describe_count(len(runs), "run"), found["target"]
    if target is None:
        return f"{count} of version {found['version']}; its statements say what they write."
    write = target["write"]
    if target["merge_keys"]:
        write = f"{write} on {', '.join(target['merge_keys'])}"
    partitions = ", ".join(target["partition_by"])
    by = f", partitioned by {partitions}" if partitions else ""
    return f"{count} of version {found['version']}: {write} to {target['table']}{by}."


def _find_partitions(client: Client, found: Json) -> None:
    """Add the partitions to the intervals that would run.

    Raise click.UsageError if they cannot be found.
    """
    query = found["partitions_query"]
    if query is None:
        raise click.UsageError(
            "The partitions are not known: the manifest has no `partition-by`, or no `sql`."
        )
    names = found["target"]["partition_by"]
    for interval in found["intervals"]:
        if interval["refusal"] is None:
            times = {"run_time": "end", "interval_start": "start", "interval_end": "end"}
            parameters = [
                {"name": name, "value": interval[field], "type": "TIMESTAMP"}
                for name, field in times.items()
            ]
            rows = fetch_rows(client, None, query, {"parameters": parameters})
            interval["partitions"] = [
                ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))
                for row in rows
            ]
        else:
            interval["partitions"] = []


@job.command()
@_run_argument
@click.option("--latest", is_flag=True, help="Run the deployed version, not that of the run.")
@options.output
@with_context
def repair(
    context: CommandContext, *, run_id: str, latest: bool, output_format: OutputFormat | None
) -> None:
    """Run what has failed in a run again."""
    new = context.connect().act_on_run(run_id, "repair", {"latest": latest})
    write_object(context.terminal, new, output_format)


@job.command()
@click.argument("run_id", metavar="RUN|BACKFILL")
@options.output
@with_context
def cancel(context: CommandContext, *, run_id: str, output_format: OutputFormat | None) -> None:
    """Cancel a run, or all runs of a backfill."""
    client = context.connect()
    if run_id.startswith("bf_"):
        page = client.cancel_backfill(run_id)
        write_page(context.terminal, page, _RUN_FIELDS, output_format, _RUN_COLUMNS)
        return
    write_object(context.terminal, client.act_on_run(run_id, "cancel"), output_format)


def _act(
    context: CommandContext, name: str, action: str, action_options: dict[str, Any] | None
) -> None:
    client = context.connect()
    deployment = client.act_on_job(name, action, action_options)
    raise Exit(follow(client, deployment, context.terminal))


def _summarize(item: Json) -> Json:
    failure = item["failure"]
    error = None if failure is None else failure["message"].partition("\n")[0]
    return {**item, "error": error}


def _describe_freshness(freshness: Json) -> Json:
    return {
        name: None if seconds is None else describe_duration(float(seconds))
        for name, seconds in (
            ("lag", freshness["lag_seconds"]),
            ("max_lag", freshness["max_lag_seconds"]),
            ("expected_run", freshness["expected_run_seconds"]),
        )
    }


def _write_job(terminal: Terminal, item: Json, output_format: OutputFormat | None) -> None:
    if output_format is not None:
        write_object(terminal, item, output_format)
        return
    savepoints, current = item.pop("savepoints"), item.pop("current")
    failure, freshness = item.pop("failure"), item.pop("freshness")
    shown = dict(item)
    if freshness is not None:
        shown |= _describe_freshness(freshness)
    if current is not None:
        shown |= {name: current[name] for name in ("query_id", "decision")}
        shown["decision_reason"] = current["reason"]
    shown["error"] = None if failure is None else failure["message"]
    write_object(terminal, shown, None)
    if current is not None:
        terminal.out.write(f"\n{current['manifest'].rstrip()}\n")
    if savepoints:
        terminal.out.write("\n")
        write_items(terminal, savepoints, _SAVEPOINT_FIELDS, OutputFormat.TABLE, _SAVEPOINT_COLUMNS)
