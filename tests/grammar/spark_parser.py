"""Spark's own parser and lexer in a process of its own: what the grammar is held against.

Only the JVM and the parser are started, no SparkContext. The process reads requests from stdin, one
JSON object a line, and output each by one JSON value a line; it ends when stdin does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_TOKEN = re.compile(r"\[@-1,(\d+):(\d+)='")
_TYPE = re.compile(r"',<(\d+)>(?:,channel=\d+)?,\d+:\d+\](?:, |\])")


class SparkToken(NamedTuple):
    """A token of Spark's lexer, which gives white space and comments too."""

    type: str
    start: int
    end: int
    """Offset after the last code point. Both offsets count code points from 0."""


class SparkParser:
    """A process with Spark's parser, which logs into `folder`."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def find_error(self, text: str) -> str | None:
        """Return the error of Spark's parser, or None when it accepts the text."""
        response = self._ask({"parse": text})
        assert response is None or isinstance(response, str)
        return response

    def tokens(self, text: str) -> list[SparkToken]:
        """Return the tokens of Spark's lexer."""
        return [SparkToken(*token) for token in self._ask({"tokenize": text})]

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise

    def _ask(self, request: dict[str, str]) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, self._log.read_text()[-4000:]
        return json.loads(line)


def main() -> None:
    """Answer requests from standard input until it closes."""
    from pyspark.java_gateway import launch_gateway

    output = os.fdopen(os.dup(1), "w")
    # What the JVM prints goes to the log.
    os.dup2(2, 1)
    gateway: Any = launch_gateway()
    server = _Server(gateway.jvm)
    for line in sys.stdin:
        request = json.loads(line)
        text = request.get("parse")
        response = server.tokenize(request["tokenize"]) if text is None else server.parse(text)
        print(json.dumps(response), file=output, flush=True)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)


class _Server:
    def __init__(self, jvm: Any) -> None:
        self._streams = jvm.org.antlr.v4.runtime.CharStreams
        self._antlr = jvm.org.apache.spark.sql.catalyst.parser
        self._parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
        vocabulary = self._antlr.SqlBaseLexer.VOCABULARY
        self._types = [
            str(vocabulary.getSymbolicName(n)) for n in range(vocabulary.getMaxTokenType() + 1)
        ]

    def parse(self, text: str) -> str | None:
        from py4j.protocol import Py4JJavaError

        try:
            self._parser.parsePlan(text)
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        return None

    def tokenize(self, text: str) -> list[SparkToken]:
        stream = self._antlr.UpperCaseCharStream(self._streams.fromString(text))
        lexer = self._antlr.SqlBaseLexer(stream)
        lexer.removeErrorListeners()
        # One call for all of them: `[[@-1,start:stop='text',<type>,line:column], …]`.
        listed, at = lexer.getAllTokens().toString(), 1
        found = []
        while match := _TOKEN.match(listed, at):
            start, end = int(match[1]), int(match[2]) + 1
            shown = text[start:end]
            for plain, escaped in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
                shown = shown.replace(plain, escaped)
            kind = _TYPE.match(listed, match.end() + len(shown))
            assert kind is not None
            found.append(SparkToken(self._types[int(kind[1])], start, end))
            at = kind.end()
        return found


if __name__ == "__main__":
    main()
