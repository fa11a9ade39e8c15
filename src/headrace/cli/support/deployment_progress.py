"""What `headrace deploy` prints: the plan as a tree, the errors, the progress of each job."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.cli.output.text import paint
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import EXIT_FAILED, EXIT_USAGE
from headrace.model.lifecycle import CHANGE, DEPLOYMENT
from headrace.text.readable import describe_count

_POLL_SECONDS = 0.5
_COLOURS = {
    "start-clean": "green",
    "restart-from-savepoint": "yellow",
    "restart-clean": "yellow",
    "resume-latest": "green",
    "stop": "red",
    "error": "red",
    "+": "green",
    "-": "red",
    "@": "cyan",
}
_STEPS = {
    "planned": "begins",
    "stop_wanted": "is stopping",
    "stopped": "has stopped",
    "verified": "savepoint is verified",
    "restored": "state is ready",
    "started": "has started; waits for its first batch",
    "proven": "works",
    "undoing": "has failed; the old version is restored",
    "applied": "is deployed",
    "failed": "has failed",
}
_PAST = {
    "stop": "is stopped",
    "savepoint": "has a new savepoint",
    "delete": "is deleted",
}


def wait_for_plan(client: Client, deployment: Json, terminal: Terminal) -> Json:
    """Return a deployment when drivers have checked it."""
    if deployment["state"] == "checking":
        names = {job["session"] for job in deployment["jobs"] if job["session"]}
        terminal.info(f"checking the jobs in {', '.join(sorted(names))} …")
    return _poll(client, deployment, lambda found: found["state"] != "checking")


def follow(client: Client, deployment: Json, terminal: Terminal) -> int:
    """Print the steps of a deployment until it has ended. Return the exit code."""
    shown: dict[str, str | None] = {}

    def show(found: Json) -> bool:
        for job in found["jobs"]:
            if job["step"] != shown.get(job["name"]) and job["step"] is not None:
                shown[job["name"]] = job["step"]
                if job["step"] not in CHANGE.terminal:
                    terminal.info(f"  {job['name']}: {_STEPS.get(job['step'], job['step'])}")
                else:
                    _write_end(terminal, found, job)
        return found["state"] not in DEPLOYMENT.live

    ended = _poll(client, deployment, show)
    return 0 if ended["state"] == "applied" else EXIT_FAILED


def write_plan(terminal: Terminal, deployment: Json) -> None:
    """Print the plan: a line for each job with its reason, and the diff of its manifest."""
    jobs = deployment["jobs"]
    width = max((len(job["name"]) for job in jobs), default=0)
    for job in sorted(jobs, key=lambda job: (job["session"], job["name"])):
        decision = job["decision"]
        version = f" v{job['version']}" if job["version"] else ""
        terminal.out.write(f"{job['name'].ljust(width)}  ")
        terminal.out.write(paint(decision, _COLOURS.get(decision, ""), colour=terminal.colour))
        terminal.out.write(f"{version}  {job['reason']}\n")
        if job["changed"] and decision != "none":
            terminal.out.write(f"{' ' * width}  changed: {', '.join(job['changed'])}\n")
        for note in job["notes"]:
            terminal.out.write(f"{' ' * width}  note: {note}\n")
        if job["hint"]:
            terminal.out.write(f"{' ' * width}  hint: {job['hint']}\n")
        if job["diff"] and decision not in {"none", "start-clean"}:
            _write_diff(terminal, job["diff"], indent=" " * (width + 2))
    for broken in deployment["breaking"]:
        label = paint("breaks", "red", colour=terminal.colour)
        terminal.out.write(f"{label} {describe_breaking(broken)}\n")
    for note in deployment["notes"]:
        terminal.out.write(f"note: {note}\n")
    changes = sum(job["decision"] not in {"none", "error"} for job in jobs)
    terminal.out.write(f"{changes} of {describe_count(len(jobs), 'job changes', 'jobs change')}.\n")


def describe_breaking(broken: Json) -> str:
    """Return what a breaking change breaks, with its place in the SQL of the reader."""
    places = [f"{name} {broken[name]}" for name in ("line", "column") if broken[name]]
    place = f" ({', '.join(places)})" if places else ""
    return f"{broken['kind']} {broken['name']}: {broken['message']}{place}"


def write_errors(terminal: Terminal, errors: list[Json]) -> int:
    """Print the errors of manifests on standard error. Return the exit code."""
    for error in errors:
        place = ":".join(
            str(part) for part in (error["path"], error["line"], error["column"]) if part
        )
        prefix = f"{place}: " if place else ""
        terminal.warn(f"error: {prefix}{error['message']}")
        if error.get("hint"):
            terminal.warn(f"hint: {error['hint']}")
    terminal.warn(f"{describe_count(len(errors), 'error')}; nothing was changed.")
    return EXIT_USAGE


def _write_end(terminal: Terminal, deployment: Json, job: Json) -> None:
    if job["step"] == "applied":
        done = _PAST.get(deployment["action"]) or (
            _PAST["delete"] if job["decision"] == "stop" else _STEPS["applied"]
        )
        terminal.notice(f"{job['name']}: {done}")
        return
    failure = job["failure"] or {"message": "unknown reason"}
    terminal.warn(f"error: {job['name']} has failed: {failure['message']}")
    for output in job["written"]:
        batches = describe_count(output["batches"], "batch", "batches")
        terminal.warn(
            f"  the failed version has written {batches} of {output['query']} to {output['target']}"
        )


def _write_diff(terminal: Terminal, diff: str, *, indent: str) -> None:
    for line in diff.splitlines():
        terminal.out.write(indent)
        terminal.out.write(paint(line, _COLOURS.get(line[:1], ""), colour=terminal.colour))
        terminal.out.write("\n")


def _poll(client: Client, deployment: Json, is_done: Callable[[Json], bool]) -> Json:
    while not is_done(deployment):
        time.sleep(_POLL_SECONDS)
        deployment = client.deployment(deployment["id"])
    return deployment
