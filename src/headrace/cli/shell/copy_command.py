r"""The arguments of `\copy`."""

from __future__ import annotations

import io
import os
import secrets
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from headrace.cli.load.loader import Loader
from headrace.cli.output.formats import OutputFormat, format_of_file, list_file_endings
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.session import ShellSession
from headrace.cli.support.interrupts import Interrupts
from headrace.cli.support.result_printer import ResultPrinter
from headrace.cli.support.script import Source, parse_name, split_sources
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import InvalidRequest
from headrace.grammar.lexer import Token, TokenKind, code_tokens
from headrace.grammar.script import split_script

_QUOTE_HINT = "quote a name with spaces: 'my file.sql'"


def split_words(command: str, arguments: str, *, hint: str | None = None) -> list[str]:
    """Return the words of the arguments. Raises InvalidRequest if a quote does not end."""
    try:
        return shlex.split(arguments)
    except ValueError as error:
        raise InvalidRequest(f"\\{command}: {error}.", hint=hint) from None


def parse_file(command: str, arguments: str, *, hint: str = _QUOTE_HINT) -> Path:
    """Return the one file that the arguments name.

    Raises InvalidRequest if there is not one word, or if the home of its user is not known.
    """
    words = split_words(command, arguments, hint=hint)
    if len(words) != 1:
        raise InvalidRequest(
            f"\\{command} takes one file, but there are {len(words)} words.", hint=hint
        )
    try:
        return Path(words[0]).expanduser()
    except RuntimeError:
        raise InvalidRequest(
            f"\\{command}: the home folder in {words[0]!r} is not known.",
            hint="write the whole path, or ./~… for a file whose name begins with ~",
        ) from None


_USAGE = "write \\copy TABLE to 'FILE', \\copy (QUERY) to 'FILE' or \\copy TABLE from 'FILE'"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A copy between a table and a local file."""

    table: str
    """Name of the table; empty if a query is copied."""
    query: str
    is_load: bool
    """Whether the file is read, and not written."""
    file: Path


def parse_copy(arguments: str) -> CopyRequest:
    """Return the parsed arguments. Raises InvalidRequest if they have another form."""
    tokens = list(code_tokens(arguments))
    index = _direction_index(tokens)
    if index is None:
        raise InvalidRequest("\\copy needs `to` or `from`, and a file.", hint=_USAGE)
    direction = tokens[index]
    is_load = direction.word == "FROM"
    subject = arguments[: direction.start].strip()
    file = parse_file("copy", arguments[direction.end :], hint=_USAGE)
    if not subject.startswith("("):
        name = parse_name(subject)
        return CopyRequest(name, f"TABLE {name}", is_load, file)
    if is_load:
        raise InvalidRequest("\\copy … from needs a table, not a query.", hint=_USAGE)
    query = subject[1:-1].strip()
    if not subject.endswith(")") or len(split_script(query)) != 1:
        raise InvalidRequest("\\copy takes one query in brackets.", hint=_USAGE)
    return CopyRequest("", query, is_load, file)


def _direction_index(tokens: Sequence[Token]) -> int | None:
    """Return the index of TO or FROM after the table, or after the query in brackets."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.SYMBOL:
            depth += (token.word == "(") - (token.word == ")")
        elif depth == 0 and token.word in {"TO", "FROM"} and index:
            return index
    return None


def copy_from(
    request: CopyRequest,
    client: Client,
    session: ShellSession,
    executor: Executor,
    terminal: Terminal,
) -> int:
    """Load the file and return the exit code.

    Raises:
        HeadraceError: The file or the table cannot be read, or they do not fit together.
    """

    def load(interrupts: Interrupts) -> int:
        def run(text: str, fields: dict[str, Any], printer: ResultPrinter) -> int:
            statements = split_sources([Source(None, text)])
            return executor.run_interruptible(
                statements, printer, interrupts, fields=fields, limited=False
            )

        loader = Loader(client, terminal, session.id, run, interrupts)
        return loader.load(request.table, [request.file])

    return executor.run_until_interrupt(load)


class _FilePrinter(ResultPrinter):
    """Prints one result to a file."""

    def __init__(
        self, client: Client, terminal: Terminal, output_format: OutputFormat, stream: BinaryIO
    ) -> None:
        self._stream = stream
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n", write_through=True)
        self._text = text
        super().__init__(client, replace(terminal, out=cast("TextIO", text)), output_format)

    def detach(self) -> None:
        """Write what is buffered, and leave the binary stream open."""
        self._text.detach()

    def _write_binary(self, statement: Json, format: OutputFormat) -> None:  # noqa: A002
        for block in self._client.download(statement["id"], format.download):
            self._stream.write(block)


def copy_to(request: CopyRequest, client: Client, executor: Executor, terminal: Terminal) -> int:
    """Run the query of a copy and write its file. Return the exit code.

    Raises:
        InvalidRequest: The end of the file's name is no format, or the file cannot be written.
    """
    output_format = format_of_file(request.file)
    if output_format is None:
        raise InvalidRequest(
            f"The end of {str(request.file)!r} does not name a format.",
            hint=f"choose one of {list_file_endings()}",
        )
    statements = split_sources([Source(None, request.query)])
    code = 0
    try:
        with _replaced_file(request.file) as stream:
            printer = _FilePrinter(client, terminal, output_format, stream)
            code = executor.run_until_interrupt(
                lambda interrupts: executor.run_interruptible(
                    statements, printer, interrupts, limited=False
                )
            )
            printer.detach()
            if code:
                raise _NotWrittenError
    except _NotWrittenError:
        return code
    except OSError as error:
        raise InvalidRequest(f"{request.file} cannot be written: {error.strerror}.") from error
    terminal.info(f"Wrote {request.file} ({request.file.stat().st_size:,} bytes).")
    return code


class _NotWrittenError(Exception):
    """The result is not complete, so that the file must not appear."""


@contextmanager
def _replaced_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces the file when the block ends without an error.

    The file keeps its mode, and a symbolic link stays one.
    """
    target = Path(os.path.realpath(file))
    mode = None
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")

    def create(path: str, flags: int) -> int:
        return os.open(path, flags, 0o666 if mode is None else mode)

    try:
        with open(temporary, "xb", opener=create) as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            yield stream
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
