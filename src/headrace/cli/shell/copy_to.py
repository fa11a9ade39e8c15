r"""`\copy … to`: write a result to a local file, which appears whole or not at all."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from headrace.cli.output.formats import OutputFormat, format_of_file, list_file_endings
from headrace.cli.result_printer import ResultPrinter
from headrace.cli.script import Source, split_sources
from headrace.cli.shell.copy_command import CopyRequest
from headrace.cli.shell.executor import Executor
from headrace.cli.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import InvalidRequest


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
