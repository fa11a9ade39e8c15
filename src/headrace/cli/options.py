"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli.output.formats import Format
from headrace.errors import InvalidRequest

Server = Annotated[
    str | None,
    typer.Option(
        help="Address of the node; `embedded` for one of this home only. "
        "Default: this home's node, one on port 8040, else one that is started.",
        show_default=False,
    ),
]
Home = Annotated[
    str | None, typer.Option(help="Where state is kept. Default: ./.headrace.", show_default=False)
]
Debug = Annotated[bool, typer.Option("--debug", help="Show stack traces of errors.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no footers; warnings stay.")
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-o",
        help="How rows are written. Default: a table on a terminal, else CSV; "
        "HEADRACE_FORMAT pins it.",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Spark configuration; repeatable."),
]
Profile = Annotated[str | None, typer.Option(help="Profile of a new session.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]


class Disposition(StrEnum):
    AUTO = "auto"
    INLINE = "inline"
    STORED = "stored"


class OnError(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


# Of `headrace sql` alone.

Texts = Annotated[list[str] | None, typer.Argument(metavar="[SQL]...", show_default=False)]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", help="Run a file; `-` is standard input. Repeatable."),
]
Session = Annotated[
    str | None, typer.Option(help="Id or name of the session. Default: one of its own.")
]
Create = Annotated[bool, typer.Option("--create", help="Make the named session if there is none.")]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME[:TYPE]=VALUE",
        help="A value for :NAME, or =VALUE for `?`. Repeatable.",
    ),
]
RowLimit = Annotated[int | None, typer.Option(min=1, help="Rows at most.")]
ByteLimit = Annotated[int | None, typer.Option(min=1, help="Bytes at most.")]
Result = Annotated[Disposition, typer.Option(help="Where the node keeps results.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Print the statement id and leave it running.")
]
Wait = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Wait that long, e.g. 30s, then leave it running."),
]
WhenFailed = Annotated[OnError, typer.Option("--on-error", help="What a script does after one.")]
Results = Annotated[str, typer.Option(metavar="all|last|N", help="Whose results are written.")]


def pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` arguments as a mapping. Raises InvalidRequest."""
    found = {}
    for value in values or ():
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"{option} {value!r}: write {option} KEY=VALUE.")
        found[key] = rest
    return found


def parameters(values: Sequence[str] | None) -> list[dict[str, Any]]:
    """`NAME=VALUE`, `NAME:TYPE=VALUE` and, for `?` in order, `=VALUE`. Raises InvalidRequest.

    Without a type a value is a string.
    """
    found = []
    for value in values or ():
        left, equals, rest = value.partition("=")
        if not equals:
            raise InvalidRequest(f"--param {value!r}: write NAME=VALUE or NAME:TYPE=VALUE.")
        name, _, type_name = left.partition(":")
        parameter = {"name": name, "type": type_name.strip(), "value": rest}
        found.append({key: each for key, each in parameter.items() if key == "value" or each})
    return found


def seconds(value: str, option: str) -> float:
    """A duration such as `30s` in seconds. Raises InvalidRequest."""
    from headrace.durations import parse_duration  # noqa: PLC0415 - it imports pydantic: 0.15 s

    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        raise InvalidRequest(f"{option}: {error}.") from None
