"""Output of a statement that has ended: rows on standard output, all else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain

from headrace.cli.output.formats import OutputFormat, ResultDetails, make_writer
from headrace.cli.output.writers import OutputColumn, Row
from headrace.cli.support.readable import format_elapsed
from headrace.cli.support.script import SourceStatement
from headrace.cli.support.terminal import Terminal
from headrace.client.errors import exit_code_of
from headrace.client.http import Client, Json
from headrace.errors import EXIT_FAILED, EXIT_TIMEOUT, HeadraceError
from headrace.grammar.script import describe_verb
from headrace.model.lifecycle import StatementState
from headrace.text.readable import describe_count

_EXIT_CODES = {StatementState.SUCCESS.value: 0, StatementState.TIMEOUT.value: EXIT_TIMEOUT}
"""Exit codes of the ends that are no failures."""
_SAMPLE_ROWS = 1000
"""Rows from which a table derives its column widths."""


def exit_code(statement: Json) -> int:
    """Return the exit code for a statement that has ended.

    A statement that a node has refused itself has the exit code of the command that does the same:
    `STOP STREAM q` that of `headrace stream stop q`.
    """
    # SessionKind is not imported: it would bring pydantic into every command.
    if statement.get("kind") == "local" and statement.get("error"):
        return exit_code_of(statement["error"]["code"])
    return _EXIT_CODES.get(statement["state"], EXIT_FAILED)


class ResultPrinter:
    """Prints the results of statements one after another in one format."""

    _more_rows_hint = "run the statement with a higher --row-limit or --byte-limit"
    _whole_values_hint = "Add --format vertical to see whole values."

    def __init__(
        self, client: Client, terminal: Terminal, output_format: OutputFormat | None
    ) -> None:
        """Prepare the output; without a format, each result gets the default format."""
        self._client = client
        self._terminal = terminal
        self._format = output_format
        self._is_json = output_format is not None and output_format.is_json
        self._result_count = 0
        self.client_seconds: float | None = None
        """Time from the submit of the statement until its end was known here, if it ran here."""

    def print_result(self, statement: Json) -> None:
        """Print the rows of a successful statement.

        A result without columns prints nothing, except `[]` in JSON.

        Raises:
            HeadraceError: The rows cannot be read completely.
        """
        result = statement.get("result")
        if result is None or self._format is OutputFormat.NONE:
            return
        if self._format is not None and self._format.is_binary:
            self._write_binary(statement, self._format)
        else:
            self._write_rows(statement, result)
        self._terminal.out.flush()

    def print_footer(self, statement: Json) -> None:
        """Print the warnings and the footer of a successful statement.

        The footer is `3 rows · 0.12 s`, or `INSERT 1,000 rows · 2.6 s`, or `DROP TABLE · 0.5 s`.
        With --verbose, the id of the statement follows.
        """
        self.print_warnings(statement)
        result = statement.get("result") or {}
        count = result.get("row_count", 0)
        rows = describe_count(count, "row")
        if not result.get("schema"):
            verb = describe_verb(statement["statement"]) or "done"
            is_counted = count or result.get("rows_written") is not None
            rows = f"{verb} {rows}" if is_counted else verb
        suffix = f" · {statement['id']}" if self._terminal.verbose else ""
        self._terminal.info(f"{rows} · {format_elapsed(statement)}{suffix}")

    def print_warnings(self, statement: Json) -> None:
        """Print what the user must know about a successful statement, even with --quiet."""
        result = statement.get("result") or {}
        if result.get("truncated"):
            rows = describe_count(result.get("row_count", 0), "row")
            self._terminal.warn(
                f"Truncated after {rows}, because a row or byte limit was reached. "
                f"For more rows, {self._more_rows_hint}."
            )
        if statement.get("note"):
            self._terminal.warn(statement["note"])
        elif statement.get("atomic") is False:
            self._terminal.warn(
                "The statement was not atomic: a failure would have left a part of its rows."
            )

    def print_failure(
        self,
        statement: Json,
        source: SourceStatement | None = None,
        message: str | None = None,
    ) -> None:
        """Print the error of a statement that did not succeed.

        Args:
            source: The statement in its source, if this command submitted it.
            message: Replaces the message of the node.
        """
        failure = statement.get("error") or {
            "message": f"The statement {statement['id']} ended as {statement['state']}."
        }
        if self._terminal.debug and statement.get("error"):
            failure = self._client.statement(statement["id"], trace=True)["error"]
        if message is not None:
            failure = {**failure, "message": message}
        text = None if source is not None else statement.get("statement")
        self._terminal.errors.print_failure(failure, source, text)
        self._terminal.info(f"{format_elapsed(statement)} · {statement['id']}")

    def _write_binary(self, statement: Json, format: OutputFormat) -> None:  # noqa: A002
        sys.stdout.flush()
        for block in self._client.download(statement["id"], format.download):
            sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()

    def _write_rows(self, statement: Json, result: Json) -> None:
        columns = [OutputColumn(column["name"], column["type"]) for column in result["schema"]]
        if not columns and self._format is not OutputFormat.JSON:
            return
        chunks = self._read_chunks(statement)
        first_chunk = next(chunks, [])
        sample = first_chunk[:_SAMPLE_ROWS]
        out = self._terminal.out
        details = ResultDetails(
            row_count=result["row_count"],
            time_zone=result.get("time_zone"),
            on_cut=self._report_cut_values,
        )
        writer = make_writer(
            self._format, out, columns, sample, colour=self._terminal.colour, details=details
        )
        if self._result_count and not self._is_json:
            out.write("\n")
        self._result_count += 1
        writer.begin(columns, sample)
        count = 0
        for rows in chain([first_chunk], chunks):
            writer.write_rows(rows)
            count += len(rows)
        writer.end()
        # A statement without columns, such as INSERT, counts the rows that it has written.
        if columns and count != result["row_count"]:
            raise HeadraceError(
                f"The result of {statement['id']} is incomplete: the node returned {count} of "
                f"{result['row_count']} rows."
            )

    def _report_cut_values(self, count: int) -> None:
        self._terminal.warn(
            f"{describe_count(count, 'value is', 'values are')} cut to fit the terminal. "
            f"{self._whole_values_hint}"
        )

    def _read_chunks(self, statement: Json) -> Iterator[list[Row]]:
        """Read the chunks of a result; the response to the submit may hold the first one."""
        next_chunk: int | None = 0
        has_rows = statement.get("rows") is not None
        if has_rows and not _needs_plain_numbers(statement, is_json=self._is_json):
            yield statement["rows"]
            next_chunk = statement.get("next_chunk")
        elif not statement["result"]["row_count"]:
            return
        while next_chunk is not None:
            chunk = self._client.rows(statement["id"], next_chunk, plain_numbers=True)
            yield chunk["rows"]
            next_chunk = chunk["next_chunk"]


def _needs_plain_numbers(statement: Json, *, is_json: bool) -> bool:
    """Return True if bigint and decimal values would appear as JSON strings in the output.

    The response to a submit holds them as strings, so that their rows must be read again.
    """
    types = [column["type"] for column in statement["result"]["schema"]]
    string_types = [name for name in types if "bigint" in name or "decimal" in name]
    return any(is_json or "<" in name for name in string_types)
