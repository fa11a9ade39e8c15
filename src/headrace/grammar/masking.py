"""Secrets in the options of streams and sinks, which no list, event or log shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from headrace.grammar.clauses import Options
from headrace.grammar.parse import Command, parse
from headrace.grammar.stream_statements import CreateSink, CreateStream, SaveStream

MASK = "*********(redacted)"
"""The text with which Spark itself replaces a secret."""
# As Spark's spark.redaction.regex, and what the clients of Kafka and of cloud storage call secrets.
_SECRET_KEY = re.compile(
    r"secret|password|passphrase|token|credential|access[._-]?key|account[._-]?key|jaas|"
    r"private|keystore\.key|sas\b|auth",
    re.IGNORECASE,
)
_SECRET_IN_VALUE = re.compile(
    r"(?P<before>(?:password|secret|token|sig)=)[^&;\s]+|(?P<user>//[^/:@\s]+:)[^/@\s]+(?=@)",
    re.IGNORECASE,
)


def mask_options(options: Iterable[tuple[str, str]]) -> Options:
    """Return the options with every secret replaced, also inside URLs."""
    return tuple((key, _mask_value(key, value)) for key, value in options)


def mask_statement(text: str) -> str:
    """Return a statement on streams with every secret in its options replaced."""
    command: Command | None = parse(text).command
    if isinstance(command, CreateStream | CreateSink | SaveStream):
        return replace(command, options=mask_options(command.options)).to_sql()
    return text


def _mask_value(key: str, value: str) -> str:
    if _SECRET_KEY.search(key):
        return MASK
    return _SECRET_IN_VALUE.sub(lambda match: f"{match['before'] or match['user']}{MASK}", value)
