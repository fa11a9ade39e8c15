"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import click

from headrace.cli.output.formats import OutputFormat
from headrace.errors import InvalidRequest
from headrace.model.request_fields import FieldKind, describe_fields

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., None])


class DispositionOption(StrEnum):
    """Values of `--result`."""

    AUTO = "auto"
    INLINE = "inline"
    STORED = "stored"
    MEMORY = "memory"


class OnError(StrEnum):
    """Values of `--on-error`."""

    STOP = "stop"
    CONTINUE = "continue"


server = click.option(
    "--server",
    metavar="URL[,URL…]",
    help="Address of the node, or of several nodes of one cluster; `embedded` allows only the node "
    "of this home. Default: the node of this home, else a node on port 8040, else an embedded node "
    "that the command starts.",
)
home = click.option(
    "--home", metavar="DIR", help="Folder that holds all state. Default: ./.headrace."
)
debug = click.option("--debug", is_flag=True, help="Show the stack traces of errors.")
quiet = click.option(
    "--quiet", "-q", is_flag=True, help="Show no progress and no footers; warnings remain."
)
verbose = click.option(
    "--verbose", "-v", is_flag=True, help="Show the id of each statement in its footer."
)
output = click.option(
    "--format",
    "-o",
    "output",
    type=click.Choice(OutputFormat, case_sensitive=False),
    metavar="FORMAT",
    help=f"Output format: {', '.join(OutputFormat)}. Default: HEADRACE_FORMAT, else a table on a "
    "terminal and CSV elsewhere.",
)
conf = click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="Spark configuration of a new session; repeatable.",
)
profile = click.option("--profile", metavar="NAME", help="Profile of a new session.")
owner = click.option(
    "--owner", metavar="OWNER", help="Own what is created as group:NAME, a group of yours."
)
all_owners = click.option(
    "--all-owners",
    is_flag=True,
    help="List objects of others too, if you are an operator, an auditor or an administrator.",
)
before = click.option("--before", metavar="ID", help="List only items older than this one.")
limit = click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    metavar="N",
    show_default=True,
    help="Maximum number of items.",
)


def connection_options(command: CommandFunction) -> CommandFunction:
    """Add the options of every command that connects to a node."""
    return server(home(debug(command)))


_FIELD_OPTIONS: dict[FieldKind, dict[str, Any]] = {
    FieldKind.DURATION: {"metavar": "DURATION"},
    FieldKind.COUNT: {"type": click.IntRange(1), "metavar": "N"},
    FieldKind.TEXT: {"metavar": "TEXT"},
}


def request_fields(description: type[Any]) -> Callable[[CommandFunction], CommandFunction]:
    """Add an option for each described field of a request, under its name in requests."""

    def add_options(command: CommandFunction) -> CommandFunction:
        for field in reversed(describe_fields(description).values()):
            add = click.option(field.flag, field.key, help=field.help, **_FIELD_OPTIONS[field.kind])
            command = add(command)
        return command

    return add_options


def check_request_fields(description: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the described fields among the values of options.

    Raises InvalidRequest, naming the option, if the text of a duration is none.
    """
    checked = {}
    for field in describe_fields(description).values():
        value = values[field.key]
        if field.kind is FieldKind.DURATION and value is not None:
            parse_seconds(value, field.flag)
        checked[field.key] = value
    return checked


def parse_pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return `KEY=VALUE` arguments as a mapping.

    Raises InvalidRequest, naming `option`, if an argument has another form.
    """
    pairs = {}
    for argument in values or ():
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"{option} {argument!r} is not valid. Write {option} KEY=VALUE.")
        pairs[key] = value
    return pairs


def parse_parameters(values: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the arguments of `--param` as parameters of a statement.

    `NAME=VALUE` and `NAME:TYPE=VALUE` set `:NAME`. `=VALUE` and `:TYPE=VALUE` set the markers `?`
    in order. The default type is string.

    Raises InvalidRequest if an argument has another form.
    """
    parameters = []
    for argument in values or ():
        marker, equals, value = argument.partition("=")
        if not equals:
            raise InvalidRequest(
                f"--param {argument!r} is not valid. Write NAME=VALUE or NAME:TYPE=VALUE."
            )
        name, _, type_name = marker.partition(":")
        optional = {"name": name, "type": type_name.strip()}
        parameters.append({key: text for key, text in optional.items() if text} | {"value": value})
    return parameters


def parse_seconds(value: str, option: str) -> float:
    """Return a duration such as `30s` in seconds.

    Raises InvalidRequest, naming `option`, if the value is not a duration.
    """
    # headrace.text.durations imports pydantic, which takes 0.15 s.
    from headrace.text.durations import parse_duration  # noqa: PLC0415

    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        raise InvalidRequest(f"{option}: {str(error).rstrip('.')}.") from None
