"""References to secrets, `${secret:NAME}`, and the texts in which they can stand.

A reference can stand in a value of Spark's configuration, and in a value of OPTIONS in a statement
on streams or in a CREATE TEMPORARY VIEW. The store keeps the reference. A driver asks its node for
the value when it needs it, and puts the reference back into everything that it reports.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from headrace.config.sections import SECRET_NAME
from headrace.errors import InvalidSecretReference, SecretMisplaced
from headrace.grammar.lexer import Token, TokenKind, code_tokens, tokenize
from headrace.grammar.masking import mask_text
from headrace.grammar.quoting import quote_string, unquote_string
from headrace.grammar.text import position_at
from headrace.model.failure import Failure
from headrace.model.headrace_options import is_own_key

START = "${secret:"
_REFERENCE = re.compile(rf"\$\{{secret:(?P<name>{SECRET_NAME})\}}")
_STATEMENTS = re.compile(
    r"(?:CREATE (?:OR REPLACE )?(?:STREAM|SINK|(?:GLOBAL )?TEMP(?:ORARY)? VIEW)|SAVE STREAM)\b"
)
"""First words of the statements whose OPTIONS can refer to secrets."""
_FIRST_WORDS = 6
_STRING_STARTS = frozenset("'\"rR")
_PLACES = (
    "Write it in a value of Spark's configuration, or in a value of the OPTIONS of CREATE STREAM,"
    " CREATE SINK, SAVE STREAM or CREATE TEMPORARY VIEW … USING."
)

M = TypeVar("M", bound=BaseModel)


def make_reference(name: str) -> str:
    """Return the reference to a secret."""
    return f"{START}{name}}}"


def has_reference(text: str) -> bool:
    """Return whether a text has a reference, well-formed or not."""
    return START in text


def find_names(value: str) -> list[str]:
    """Return the names of the secrets that a value refers to.

    Raise InvalidSecretReference for a reference that is malformed or nested.
    """
    names = [match["name"] for match in _REFERENCE.finditer(value)]
    if len(names) != value.count(START):
        raise InvalidSecretReference(
            f"The value has a malformed reference to a secret: {_show_malformed(value)}",
            hint="Write ${secret:NAME}. A name has at most 64 letters, digits, _ and -, and begins"
            " with a letter.",
        )
    return names


def list_in_conf(conf: Mapping[str, str]) -> list[str]:
    """Return the names of the secrets that a configuration refers to, each once.

    Raises:
        InvalidSecretReference: As `find_names`, with the key.
        SecretMisplaced: A key, or the value of an option of Headrace, has a reference.
    """
    names = dict[str, None]()
    for key, value in conf.items():
        if has_reference(key) or (has_reference(value) and is_own_key(key)):
            raise SecretMisplaced(
                f"{key!r} cannot refer to a secret: Headrace itself reads it.", hint=_PLACES
            )
        try:
            names.update(dict.fromkeys(find_names(value)))
        except InvalidSecretReference as error:
            raise InvalidSecretReference(f"{key}: {error.message}", hint=error.hint) from None
    return list(names)


def list_in_sql(text: str) -> list[str]:
    """Return the names of the secrets that a statement refers to, each once.

    Raises, with the position:
        InvalidSecretReference: As `find_names`.
        SecretMisplaced: A reference is not a part of the value of an option.
    """
    names = dict[str, None]()
    for token in _find_literals(text):
        try:
            names.update(dict.fromkeys(find_names(unquote_string(text[token.start : token.end]))))
        except InvalidSecretReference as error:
            position = position_at(text, token.start)
            raise InvalidSecretReference(
                error.message, position=position, hint=error.hint
            ) from None
    return list(names)


def replace_in_value(value: str, values: Mapping[str, str]) -> str:
    """Return a value with the values of the secrets that it refers to, as far as they are given."""
    return _REFERENCE.sub(lambda match: values.get(match["name"], match[0]), value)


def replace_in_sql(text: str, values: Mapping[str, str]) -> str:
    """Return a statement whose options have the values of the secrets that they refer to."""
    parts, last = list[str](), 0
    for token in _find_literals(text):
        value = unquote_string(text[token.start : token.end])
        parts += [text[last : token.start], quote_string(replace_in_value(value, values))]
        last = token.end
    return "".join([*parts, text[last:]])


def check_has_no_reference(text: str, place: str) -> None:
    """Raise SecretMisplaced if a text has a reference.

    Args:
        place: What the text is, for the message, for example `the parameter n`.
    """
    if has_reference(text):
        raise SecretMisplaced(f"{place} cannot refer to a secret.", hint=_PLACES)


def _show_malformed(value: str) -> str:
    """Return the first malformed reference, up to its end or 80 characters."""
    rest = _REFERENCE.sub("", value)
    start = rest.index(START)
    end = rest.find("}", start)
    return rest[start : min(end + 1 if end >= 0 else len(rest), start + 80)]


def _find_literals(text: str) -> Iterator[Token]:
    """Yield the string literals with references. Raise SecretMisplaced for any other place."""
    if START not in text:
        return
    takes_secrets = _STATEMENTS.match(" ".join(_first_words(text))) is not None
    covered = 0
    for token, is_option in _mark_options(text):
        in_token = text.count(START, token.start, token.end)
        if token.kind in {TokenKind.COMMENT, TokenKind.UNREADABLE}:
            # Spark reports what it cannot read.
            covered += in_token
        elif in_token and takes_secrets and is_option:
            covered += in_token
            yield token
        elif in_token:
            raise _misplaced(text, token.start)
    if covered != text.count(START):
        raise _misplaced(text, text.index(START))


def _first_words(text: str) -> Iterator[str]:
    for _, token in zip(range(_FIRST_WORDS), code_tokens(text), strict=False):
        yield token.word


def _mark_options(text: str) -> Iterator[tuple[Token, bool]]:
    """Yield each token, and whether it is a string that is the value of an option in OPTIONS."""
    depth, before = 0, ""
    for token in tokenize(text):
        if token.kind is TokenKind.COMMENT:
            yield token, False
            continue
        if token.word == "(" and (depth or before == "OPTIONS"):
            depth += 1
        elif token.word == ")" and depth:
            depth -= 1
        is_string = token.kind is TokenKind.QUOTED and text[token.start] in _STRING_STARTS
        yield token, depth == 1 and is_string and before not in {"(", ","}
        before = token.word


def _misplaced(text: str, start: int) -> SecretMisplaced:
    return SecretMisplaced(
        "The statement refers to a secret in a place where no secret can be used.",
        position=position_at(text, start),
        hint=_PLACES,
    )


class KnownSecrets:
    """The values of secrets that a driver has received, and what replaces them. Thread-safe."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._references: dict[str, str] = {}
        """References by the forms in which texts contain the values."""
        self._pattern: re.Pattern[str] | None = None
        self.add(values or {})

    def add(self, values: Mapping[str, str]) -> None:
        """Know further values, by name. Earlier values of a name remain known."""
        new = {
            form: make_reference(name) for name, value in values.items() for form in _forms(value)
        }
        with self._lock:
            if new.keys() <= self._references.keys():
                return
            self._references |= new
            # Of two values that begin alike, the longer one must match.
            longest_first = sorted(self._references, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def knows(self, name: str) -> bool:
        """Return whether a value of this name is known."""
        return make_reference(name) in self._references.values()

    def mask(self, text: str) -> str:
        """Return a text with a reference in the place of each value."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._references[match[0]], text)

    def mask_text(self, text: str) -> str:
        """Return a text without the values, and without the secrets that it names."""
        return mask_text(self.mask(text))

    def mask_end(self, text: str) -> str:
        """Return the end of a text as `mask_text` does, without the end of a value at its start."""
        with self._lock:
            forms = list(self._references)
        cut = max((_count_overlap(form, text) for form in forms), default=0)
        return self.mask_text(text[cut:])

    def mask_message(self, message: M) -> M:
        """Return a message with references in the place of values, in all its texts.

        The texts of failures have no secrets that they name, either. Binary data stays as it is.
        """
        masked: M = self._mask_any(message)
        return masked

    def _mask_any(self, value: Any) -> Any:
        # A subclass of str is a value of an enumeration.
        if type(value) is str:
            return self.mask(value)
        if isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            changed = {
                name: new
                for name, field in fields.items()
                if (new := self._mask_any(field)) is not field and new != field
            }
            if isinstance(value, Failure):
                changed |= _mask_failure(value, changed)
            return value.model_copy(update=changed) if changed else value
        if self._pattern is None and not (isinstance(value, list) and value):
            return value
        if isinstance(value, list | tuple):
            is_plain = self._pattern is None and not isinstance(value[0], BaseModel)
            return value if is_plain else type(value)(map(self._mask_any, value))
        if isinstance(value, dict):
            return {self._mask_any(key): self._mask_any(each) for key, each in value.items()}
        return value


def _mask_failure(failure: Failure, changed: Mapping[str, str]) -> dict[str, str]:
    message = changed.get("message", failure.message)
    masked = {"message": mask_text(message)}
    if failure.trace is not None:
        masked["trace"] = mask_text(changed.get("trace", failure.trace))
    return {name: text for name, text in masked.items() if text != getattr(failure, name)}


def _forms(value: str) -> Iterable[str]:
    """Return the forms in which a value can stand in a text: as it is, in SQL, JSON and URLs."""
    return dict.fromkeys(
        [
            value,
            value.replace("'", "''"),
            value.replace("\\", "\\\\").replace("'", "\\'"),
            json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1],
            quote(value, safe=""),
            quote(value),
        ]
    )


def _count_overlap(value: str, text: str) -> int:
    """Return the length of the longest end of a value with which a text begins."""
    for match in re.finditer(re.escape(text[:1]), value) if text else ():
        if text.startswith(value[match.start() :]):
            return len(value) - match.start()
    return 0


Find = Callable[[list[str]], Mapping[str, str]]
"""Returns the values of secrets by name. Raises the errors of `control/secret_values.py`."""


def resolve_values(conf: Mapping[str, str], find: Find) -> dict[str, str]:
    """Return a configuration with the values of the secrets that it refers to.

    Raises as `list_in_conf` and `find` do.
    """
    names = list_in_conf(conf)
    values = find(names) if names else {}
    return {key: replace_in_value(value, values) for key, value in conf.items()}


def resolve_sql(text: str, find: Find) -> str:
    """Return a statement with the values of the secrets that its options refer to.

    Raises as `list_in_sql` and `find` do.
    """
    names = list_in_sql(text)
    return replace_in_sql(text, find(names)) if names else text
