"""What a statement left: its rows on standard output, the rest on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from headrace.cli.output.base import OutputColumn, Row
from headrace.cli.output.formats import OutputFormat, writer
from headrace.cli.script import SourceStatement
from headrace.cli.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import EXIT_FAILED, EXIT_TIMEOUT, HeadraceError
from headrace.model.lifecycle import StatementState

_EXITS = {
    StatementState.SUCCESS: 0,
    StatementState.FAILED: EXIT_FAILED,
    StatementState.CANCELLED: EXIT_FAILED,
    StatementState.TIMEOUT: EXIT_TIMEOUT,
}


def exit_code(statement: Json) -> int:
    """What a command leaves with for a statement that has ended."""
    return _EXITS[StatementState(statement["state"])]


class ResultPrinter:
    """Writes results one after another in one format."""

    def __init__(self, client: Client, terminal: Terminal, pinned: OutputFormat | None) -> None:
        self._client = client
        self._terminal = terminal
        self._pinned = pinned
        self._objects = pinned is not None and pinned.objects
        self._written = 0

    def result(self, statement: Json) -> None:
        """The rows of a successful statement. Raises HeadraceError when they cannot be had whole.

        Whatever has no columns leaves nothing but `[]` in JSON.
        """
        result = statement.get("result")
        if result is None or self._pinned is OutputFormat.NONE:
            return
        if self._pinned is not None and self._pinned.binary:
            self._bytes(statement, self._pinned)
        else:
            self._rows(statement, result)
        self._terminal.out.flush()

    def told(self, statement: Json) -> None:
        """Footer and warnings of a successful statement."""
        result = statement.get("result") or {}
        count = result.get("row_count", 0)
        if result.get("truncated"):
            self._terminal.warn(
                f"Truncated: these are the first {count} rows; the query has more "
                f"(a row or byte limit was reached)."
            )
        if statement.get("note"):
            self._terminal.warn(statement["note"])
        if statement.get("atomic") is False:
            self._terminal.warn("Not atomic: a failure would have left a part of the table.")
        parts = [f"{count} row{'' if count == 1 else 's'}"] if result.get("schema") else ["done"]
        parts += [seconds(statement), statement["id"]]
        parts.append(
            statement.get("url") or f"{self._client.address}/api/v1/statements/{statement['id']}"
        )
        self._terminal.tell(" · ".join(parts))

    def failed(self, statement: Json, piece: SourceStatement | None = None) -> None:
        """The error of a statement that did not succeed."""
        failure = statement.get("error") or {
            "message": f"{statement['id']} ended as {statement['state']}."
        }
        if self._terminal.debug and statement.get("error"):
            failure = self._client.statement(statement["id"], trace=True)["error"]
        text = None if piece is not None else statement.get("statement")
        self._terminal.complaints.failure(failure, piece, text)
        self._terminal.tell(f"{seconds(statement)} · {statement['id']}")

    def _bytes(self, statement: Json, format: OutputFormat) -> None:  # noqa: A002
        sys.stdout.flush()
        for block in self._client.download(statement["id"], format):
            sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()

    def _rows(self, statement: Json, result: Json) -> None:
        columns = [OutputColumn(each["name"], each["type"]) for each in result["schema"]]
        if not columns and self._pinned is not OutputFormat.JSON:
            return
        chunks = self._chunks(statement)
        first = next(chunks, [])
        out = self._terminal.out
        to = writer(self._pinned, out, columns, first[:1000], colour=self._terminal.colour)
        if self._written and not self._objects:
            out.write("\n")
        self._written += 1
        to.begin(columns, first[:1000])
        count = 0
        for rows in chain([first], chunks):
            to.rows(rows)
            count += len(rows)
        to.end()
        if count != result["row_count"]:
            raise HeadraceError(
                f"The node gave {count} of the {result['row_count']} rows of {statement['id']}."
            )

    def _chunks(self, statement: Json) -> Iterator[list[Row]]:
        following: int | None = 0
        if statement.get("rows") is not None and not _has_texts(statement, objects=self._objects):
            yield statement["rows"]
            following = statement.get("next_chunk")
        elif not statement["result"]["row_count"]:
            return
        while following is not None:
            page = self._client.rows(statement["id"], following, plain_numbers=True)
            yield page["rows"]
            following = page["next_chunk"]


def _has_texts(statement: Json, *, objects: bool) -> bool:
    """Whether numbers that are texts in a submit's own answer would show as such."""
    types = [each["type"] for each in statement["result"]["schema"]]
    long = [each for each in types if "bigint" in each or "decimal" in each]
    return any(objects or "<" in each for each in long)


def seconds(statement: Json) -> str:
    """How long a statement took from its submit to its end."""
    begun, ended = _instant(statement.get("created_at")), _instant(statement.get("ended_at"))
    if begun is None or ended is None:
        return "running"
    return f"{(ended - begun).total_seconds():.2f} s"


def _instant(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None
