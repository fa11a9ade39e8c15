"""`headrace deploy`: plan the manifests of jobs, then apply the plan."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.deployment_progress import follow, wait_for_plan, write_errors, write_plan
from headrace.cli.support.listing import write_object
from headrace.client.http import Client, Json
from headrace.deploy.variables import find_variables
from headrace.errors import HeadraceError, InvalidRequest

TEMPLATE_NAMES = ("job-template.yaml", "job-template.yml")
"""Names of the template of a folder, which is used unless another one is named."""
_MANIFESTS = (".yaml", ".yml")
_DEFINITIONS = (".sql",)


def read_files(paths: Sequence[str], *, template: str | None, definitions: Sequence[str]) -> Json:
    """Return the files of a deployment as the API takes them.

    A folder stands for the manifests in it, at any depth. Unless the caller names others, the
    `job-template.yaml` and the `*.sql` files of the folders are template and definitions.

    Raises InvalidRequest if a file cannot be read, or if there is no manifest.
    """
    folders = [Path(path) for path in paths if Path(path).is_dir()]
    manifests = [file for path in paths for file in _expand(Path(path), _MANIFESTS)]
    template_file = Path(template) if template else _find_template(folders)
    manifests = [
        file
        for file in dict.fromkeys(manifests)
        if file.name not in TEMPLATE_NAMES and file != template_file
    ]
    if not manifests:
        raise InvalidRequest(f"There is no manifest (*.yaml) in {', '.join(paths)}.")
    sources = definitions or [str(folder) for folder in folders]
    definition_files = [file for path in sources for file in _expand(Path(path), _DEFINITIONS)]
    request: Json = {
        "manifests": [_read(file) for file in manifests],
        "definitions": [_read(file) for file in dict.fromkeys(definition_files)],
    }
    if template_file is not None:
        request["template"] = _read(template_file)
    return request | {"variables": _read_variables(request)}


def _expand(path: Path, suffixes: tuple[str, ...]) -> Iterable[Path]:
    """Return a file, or the files of a folder with these suffixes, in order."""
    if not path.is_dir():
        return [path]
    found = (file for file in sorted(path.rglob("*")) if file.suffix.lower() in suffixes)
    return [file for file in found if not _is_hidden(file.relative_to(path))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _find_template(folders: Sequence[Path]) -> Path | None:
    found = [folder / name for folder in folders for name in TEMPLATE_NAMES]
    found = [file for file in found if file.is_file()]
    if len(found) > 1:
        raise InvalidRequest(
            f"There are several templates: {', '.join(map(str, found))}. Choose one with"
            " --template."
        )
    return found[0] if found else None


def _read(file: Path) -> Json:
    try:
        return {"path": str(file), "text": file.read_text(encoding="utf-8")}
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file} is not UTF-8 text (byte {error.start}).") from error


def _read_variables(request: Json) -> dict[str, str]:
    """Return the values of the variables that the files name, from the environment."""
    files = [*request["manifests"], *request["definitions"]]
    if "template" in request:
        files.append(request["template"])
    names = {name for file in files for name in find_variables(file["text"])}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


EXIT_CHANGES = 10
"""Exit code of --detailed-exitcode if the plan has changes."""
EXIT_BREAKING = 11
"""Exit code of --refuse-breaking if the plan breaks a job, a view or a stream."""


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--plan", "only_plan", is_flag=True, help="Show the plan, and change nothing.")
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="With --plan: exit with 10 if there are changes, with 0 if there are none.",
)
@click.option(
    "--refuse-breaking",
    is_flag=True,
    help="Exit with 11, and change nothing, if the plan breaks a job, a view or a stream.",
)
@click.option("--save", metavar="FILE", help="With --plan: keep the plan for --apply.")
@click.option("--apply", "saved", metavar="FILE", help="Apply a saved plan exactly as shown.")
@click.option("--yes", "-y", is_flag=True, help="Apply without a question.")
@click.option(
    "--template",
    metavar="FILE",
    help="Defaults of all manifests. Default: job-template.yaml of the folder.",
)
@click.option(
    "--definitions",
    "-d",
    multiple=True,
    metavar="FILE",
    help="SQL file or folder that defines tables, streams and sinks; repeatable. Default: the"
    " *.sql files of the folder.",
)
@click.option(
    "--profile",
    default="default",
    metavar="NAME",
    show_default=True,
    help="Profile of the sessions in which the jobs run.",
)
@click.option(
    "--state-location",
    metavar="URI",
    help="Location of manifests, savepoints and checkpoints. Default: jobs.state_location.",
)
@click.option(
    "--py-files",
    multiple=True,
    metavar="PATH",
    help="Python file, zip or folder for the code of jobs; repeatable.",
)
@options.owner
@click.option("--prune", is_flag=True, help="Stop and remove jobs whose manifests are gone.")
@options.output
@with_context
def deploy(
    context: CommandContext,
    *,
    paths: tuple[str, ...],
    only_plan: bool,
    detailed_exitcode: bool,
    refuse_breaking: bool,
    save: str | None,
    saved: str | None,
    yes: bool,
    template: str | None,
    definitions: tuple[str, ...],
    profile: str,
    state_location: str | None,
    py_files: tuple[str, ...],
    owner: str | None,
    prune: bool,
    output_format: OutputFormat | None,
) -> None:
    """Deploy jobs: show what changes, ask, and apply it.

    PATH is a manifest, or a folder with manifests (*.yaml).
    """
    _check_options(paths, saved, only_plan=only_plan, save=save)
    if saved is not None:
        deployment = _open_saved(context, saved)
        _show_plan(context, deployment, output_format, refuse_breaking=refuse_breaking)
        _apply(context, context.connect(), deployment, yes=yes)
        return
    files = read_files(paths, template=template, definitions=definitions)
    if not (only_plan or yes):
        _check_terminal()
    request = files | {
        "profile": profile,
        "state_location": _find_location(state_location),
        "py_files": [str(Path(path).absolute()) for path in py_files],
        "prune": prune,
        "owner": owner,
    }
    client = context.connect(new_home=True)
    deployment = _plan(context, client, request)
    _show_plan(context, deployment, output_format, refuse_breaking=refuse_breaking)
    if only_plan:
        _save(deployment, save)
        raise Exit(EXIT_CHANGES if detailed_exitcode and deployment["has_changes"] else 0)
    if deployment["has_changes"]:
        _apply(context, client, deployment, yes=yes)


def _find_location(written: str | None) -> str | None:
    """Return a location with an absolute path: a relative one is that of the user's folder."""
    if written is None or ":" in written:
        return written
    return str(Path(written).absolute())


def _plan(context: CommandContext, client: Client, request: Json) -> Json:
    """Return the plan. Print the errors of the manifests, and end the command, if there are any."""
    try:
        deployment = client.plan_jobs(request)
    except HeadraceError as error:
        if not error.problems:
            raise
        raise Exit(write_errors(context.terminal, error.problems)) from error
    deployment = wait_for_plan(client, deployment, context.terminal)
    if deployment["errors"]:
        raise Exit(write_errors(context.terminal, deployment["errors"]))
    return deployment


def _apply(context: CommandContext, client: Client, deployment: Json, *, yes: bool) -> None:
    if not yes:
        context.terminal.out.flush()
        _check_terminal()
        if not click.confirm("Apply?", err=True):
            context.terminal.warn("Nothing was changed.")
            raise Exit(0)
    applied = client.apply_plan(deployment["id"])
    raise Exit(follow(client, applied, context.terminal))


def _show_plan(
    context: CommandContext,
    deployment: Json,
    output_format: OutputFormat | None,
    *,
    refuse_breaking: bool,
) -> None:
    """Print a plan. End the command if it breaks something, and that is refused."""
    if output_format in {OutputFormat.JSON, OutputFormat.JSONL}:
        write_object(context.terminal, deployment, output_format)
    else:
        write_plan(context.terminal, deployment)
    if refuse_breaking and deployment["breaking"]:
        context.terminal.warn("The plan has breaking changes. Nothing was changed.")
        raise Exit(EXIT_BREAKING)


def _open_saved(context: CommandContext, file: str) -> Json:
    try:
        deployment_id = str(json.loads(Path(file).read_text())["deployment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{file} is not a saved plan of `headrace deploy`.") from error
    return context.connect().deployment(deployment_id)


def _save(deployment: Json, file: str | None) -> None:
    if file is None:
        return
    try:
        Path(file).write_text(json.dumps({"deployment": deployment["id"]}) + "\n")
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}.") from error


def _check_options(
    paths: tuple[str, ...], saved: str | None, *, only_plan: bool, save: str | None
) -> None:
    if saved is not None and (paths or only_plan):
        raise InvalidRequest("--apply takes neither a PATH nor --plan: the plan is complete.")
    if saved is None and not paths:
        raise InvalidRequest(
            "There is nothing to deploy. Name a manifest or a folder: headrace deploy PATH."
        )
    if save is not None and not only_plan:
        raise InvalidRequest("--save needs --plan.")


def _check_terminal() -> None:
    """Raise InvalidRequest if no question can be asked."""
    if not sys.stdin.isatty():
        raise InvalidRequest(
            "There is no terminal to ask on.",
            hint="Add --yes to apply the plan without a question, or --plan to see it only.",
        )
