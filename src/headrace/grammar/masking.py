"""Secrets in settings, options, URLs and texts, which no response, event or log shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.grammar.clauses import Options
from headrace.grammar.lexer import Token, TokenKind, code_tokens
from headrace.grammar.parse import Command, parse
from headrace.grammar.quoting import quote_string, unquote_string
from headrace.grammar.stream_statements import CreateSink, CreateStream, SaveStream

MASK = "*********(redacted)"
"""The text with which Spark itself replaces a secret."""
HIDDEN_KEYS = (
    "(?i)secret|password|passphrase|token|credential|(?:access|account|api|private)[._-]?key"
)
"""Keys of Spark's configuration whose values Spark hides, in the syntax that Python and Java share.

Spark's default value of spark.redaction.regex has no credentials, and no key but `access.key`.
"""
# As HIDDEN_KEYS, and what the clients of Kafka and of cloud storage call secrets.
_SECRET_KEY = re.compile(
    r"secret|passw|passphrase|pwd\b|token|credential|access[._-]?key|account[._-]?key|"
    r"api[._-]?key|jaas|private[._-]?key|keystore\.key|sas\b|auth(?!or)",
    re.IGNORECASE,
)
_SECRET_IN_VALUE = re.compile(
    r"(?P<before>(?:password|secret|token|sig)=)(?!\$\{secret:)[^&;\s]+|"
    r"(?P<user>//[^/:@\s]+:)[^/@\s]+(?=@)",
    re.IGNORECASE,
)


def _find_named(names: str) -> re.Pattern[str]:
    """Return the pattern of a secret beside its name, as in SQL, configuration and JSON.

    Args:
        names: Regular expression of the begin of the names.
    """
    return re.compile(
        rf"""(?P<name>(?<!\$\{{){names}[\w.\-]{{0,64}}+ (?:\\{{0,3}}["'`\]])?
            (?:\ {{0,4}}(?:=>|=(?!>)|:)\ {{0,4}}|\ {{1,4}}(?=\\{{0,3}}["'])))
            (?P<value>(?!\\{{0,3}}["']?(?:\*{{9}}\(redacted\)|\$\{{secret:))
            (?:\\{{1,3}}"[^"\\\n]*+ | "(?:[^"\\\n]|\\[^\n])*+ | '(?:[^'\\\n]|\\[^\n]|'')*+
            | [^\s,;)}}\]&"'\\]+))""",
        re.IGNORECASE | re.VERBOSE,
    )


_NAMED_IN_TEXT = _find_named(
    r"(?:secret|passw(?:or)?d|passphrase|token|credentials?|access[._-]?key|account[._-]?key|"
    r"api[._-]?key)"
)
_GLOBAL_FLAGS = re.compile(r"\(\?([aimsu]+)\)")
_VARIABLE = re.compile(r"\$\{\w+\}")
_SECRET_REFERENCE = re.compile(r"\$\{secret:[\w-]+\}")
"""A reference says which secret it is, and not its value."""
_SET = re.compile(r"(?is)\s*SET\s+(?P<key>[^=\s]+)\s*=\s*(?P<value>.*?)\s*;?\s*")
_STRING_STARTS = frozenset("'\"rR")


_further_keys: tuple[re.Pattern[str], re.Pattern[str]] | None = None
"""The setting `redaction.pattern`: as it is, and as a pattern of secrets beside their names."""


def set_further_keys(pattern: str | None) -> None:
    """Let keys that a pattern matches count as names of secrets, in this process.

    A node and a driver call this when they start, before anything is shown: the formatters of logs
    and the serializers have no settings.
    """
    global _further_keys  # noqa: PLW0603 - one for all parts of a process
    if pattern is None:
        _further_keys = None
        return
    # Python takes flags for the whole pattern only at its start.
    flags = _GLOBAL_FLAGS.match(pattern)
    letters, body = ("", pattern) if flags is None else (flags[1], pattern[flags.end() :])
    _further_keys = (re.compile(pattern), _find_named(f"(?{letters}-x:{body})"))


def mask_options(options: Iterable[tuple[str, str]]) -> Options:
    """Return the options with every secret replaced, also inside URLs."""
    return tuple((key, mask_value(key, value)) for key, value in options)


def mask_statement(text: str) -> str:
    """Return a statement on streams with every secret in its options replaced."""
    command: Command | None = parse(text).command
    if isinstance(command, CreateStream | CreateSink | SaveStream):
        return replace(command, options=mask_options(command.options)).to_sql()
    return mask_sql(text)


def mask_sql(text: str) -> str:
    """Return any SQL text with the strings that follow the name of a secret replaced.

    The rest of the text, its layout and comments included, stays as it is.
    """
    if not (is_secret_key(text) or _SECRET_IN_VALUE.search(text) or _further_keys):
        return text
    setting = _SET.fullmatch(text)
    if setting is not None:
        masked = mask_value(setting["key"].strip("`"), setting["value"])
        return f"{text[: setting.start('value')]}{masked}{text[setting.end('value') :]}"
    parts, last, name, is_map = list[str](), 0, "", False
    for token in code_tokens(text):
        part = text[token.start : token.end]
        if token.word in {"(", ")"}:
            is_map = token.word == "(" and name.upper() == "MAP"
        if token.word == "," and is_map:
            # A key of the options of a function: map('password', 'x').
            continue
        if token.kind is TokenKind.QUOTED and part[0] in _STRING_STARTS:
            masked = _mask_string(name, part)
            if masked != part:
                parts += [text[last : token.start], masked]
                last = token.end
        name = _continue_name(name, part, token)
    return "".join([*parts, text[last:]])


def is_secret_key(key: str) -> bool:
    """Return whether the values of a key are secrets."""
    if _further_keys is not None and _further_keys[0].search(key) is not None:
        return True
    return _SECRET_KEY.search(key) is not None


def mask_value(key: str, value: str) -> str:
    """Return the value of a key, with the value or the secrets inside it replaced."""
    if _SECRET_REFERENCE.fullmatch(value):
        return value
    if is_secret_key(key):
        return MASK
    return _SECRET_IN_VALUE.sub(lambda match: f"{match['before'] or match['user']}{MASK}", value)


def mask_values(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with every secret replaced, as `mask_value` does."""
    return {key: mask_value(key, value) for key, value in settings.items()}


def mask_urls(text: str) -> str:
    """Return a text with the passwords and tokens inside its URLs replaced."""
    return mask_value("", text)


def mask_text(text: str) -> str:
    """Return lines of a log with everything replaced that looks like a secret beside its name."""
    masked = _NAMED_IN_TEXT.sub(_mask_named, mask_urls(text))
    return masked if _further_keys is None else _further_keys[1].sub(_mask_named, masked)


def _mask_named(match: re.Match[str]) -> str:
    value = match["value"]
    quote = value[: len(value) - len(value.lstrip("\\\"'"))]
    return f"{match['name']}{quote}{MASK}"


def _mask_string(name: str, literal: str) -> str:
    """Return the string literal after a name, masked. A literal that is a reference is kept."""
    value = unquote_string(literal)
    masked = value if _VARIABLE.fullmatch(value) else mask_value(name, value)
    return literal if masked == value else quote_string(masked)


def _continue_name(name: str, part: str, token: Token) -> str:
    """Return the name that the tokens so far end with; `=` and `=>` do not end it."""
    if token.word in {"=", ">"} or (token.word in {".", "-", "_"} and name):
        return name if token.word in {"=", ">"} else f"{name}{part}"
    if token.kind is TokenKind.QUOTED and part[0] in _STRING_STARTS:
        return unquote_string(part)
    if token.kind is TokenKind.WORD or part[0] == "`":
        return f"{name}{part}" if name.endswith((".", "-", "_")) else part
    return ""
