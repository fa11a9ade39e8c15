"""JSON bodies as I-JSON (RFC 7493) defines them.

They are in UTF-8, and have neither NaN, nor unpaired surrogates, nor two values for one key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar, NoReturn

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders

from headrace.errors import InvalidRequest, InvalidText

_LARGE_BODY = 64 * 1024
"""Bytes above which a body is not parsed on the event loop."""
_MAX_VALUES = 100_000
"""Largest number of values. Lists and objects take many times their own bytes when parsed."""
_MAX_DIGITS = 40
"""Largest number of characters of an integer; a decimal has at most 38 digits."""
_SHOWN_KEYS = 5
_SHOWN_LENGTH = 100
"""Largest number of keys, and of characters of a key, in a message."""
# A string without an end reaches to the end of the text: no match fails, so the time is linear.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_POSSIBLE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_JSON = "application/json"
_JSON_SUFFIX = re.compile(r"application/.+\+json")
_NUL = b"\\u0000"
_SQL_FIELDS = {"statement", "query"}
"""Fields with SQL text. The grammar refuses a NUL in them, with its position."""


class UnsupportedMediaType(InvalidRequest):
    """The body is not sent as JSON."""

    code = "unsupported_media_type"
    status = 415


class DuplicateKey(InvalidRequest):
    """An object of the body has a key twice. Parsers disagree about which value counts."""

    code = "duplicate_key"


class StrictRequest(Request):
    """A request whose body is parsed strictly."""

    async def json(self) -> Any:
        """Parse the body. Raise as `parse_json` does."""
        body = await self.body()
        if len(body) <= _LARGE_BODY:
            return parse_json(body)
        return await run_in_threadpool(parse_json, body)


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        json.JSONDecodeError: If the text is not JSON.
        InvalidRequest: If the text is not UTF-8, is nested too deeply, or has too many values or a
            number with too many digits.
        InvalidText: If a string contains a NUL or an unpaired surrogate.
        DuplicateKey: If an object has a key twice.
    """
    if has_more_values(body, _MAX_VALUES):
        raise InvalidRequest(f"The body has more than {_MAX_VALUES} values.")
    try:
        value = json.loads(
            body.decode(),
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
            object_pairs_hook=_build_object,
        )
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not valid UTF-8 at byte {error.start}.") from error
    except RecursionError as error:
        raise InvalidRequest("The body is nested too deeply.") from error
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    if _POSSIBLE_SURROGATE.search(body):
        _refuse_surrogates(value)
    if _NUL in body:
        _refuse_nul(value)
    return value


def has_more_values(body: bytes, limit: int) -> bool:
    """Return whether a JSON text has more than `limit` values. This costs far less than a parse."""
    if _count_separators(body) <= limit:
        return False
    # Every string is a value or the key of a value.
    max_strings = 2 * (limit + 1)
    without_strings, strings = _STRING.subn(b"", body, count=max_strings + 1)
    return strings > max_strings or _count_separators(without_strings) > limit


def refuse_duplicate_keys(body: bytes) -> None:
    """Raise DuplicateKey if an object of a JSON text has a key twice.

    The parser that reads the values reports any other error of the text.
    """
    with suppress(ValueError, RecursionError):
        json.loads(body, object_pairs_hook=_build_object)


class StrictRoute(APIRoute):
    """A route whose body must be JSON and is parsed strictly."""

    media_types: ClassVar[frozenset[str]] = frozenset({_JSON})
    """Media types of a JSON body, besides `application/…+json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route, behind the checks of the body."""
        handler = super().get_route_handler()
        has_body = self.body_field is not None

        async def handle_strictly(request: Request) -> Response:
            if has_body:
                self._check_media_type(request)
                # FastAPI parses only a body of this type.
                MutableHeaders(scope=request.scope)["content-type"] = _JSON
            return await handler(StrictRequest(request.scope, request.receive))

        return handle_strictly

    def _check_media_type(self, request: Request) -> None:
        """Raise UnsupportedMediaType unless the body of a request is JSON."""
        content_type = request.headers.get("content-type")
        media_type = (content_type or "").partition(";")[0].strip().lower()
        if media_type not in self.media_types and not _JSON_SUFFIX.fullmatch(media_type):
            raise self.describe_media_type(content_type)

    def describe_media_type(self, content_type: str | None) -> UnsupportedMediaType:
        """Return the error for a body of another type."""
        reason = f"not as {content_type!r}" if content_type else "with a Content-Type header"
        return UnsupportedMediaType(f"Send the body as {_JSON}, {reason}.")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = [key for key, count in counts.items() if count > 1][:_SHOWN_KEYS]
        shown = ", ".join(ascii(key[:_SHOWN_LENGTH]) for key in repeated)
        raise DuplicateKey(f"An object of the body has a key more than once: {shown}.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _refuse_surrogates(value: Any) -> None:
    """Raise InvalidText for an unpaired surrogate, which JSON can express and no text can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        surrogate = ord(error.object[error.start])
        raise InvalidText(
            f"The body contains the unpaired surrogate U+{surrogate:04X}, which is not a character."
        ) from None


def _parse_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return int(text)


def _count_separators(body: bytes) -> int:
    """Return the number of the characters that begin or separate values."""
    return sum(map(body.count, (b",", b"[", b"{")))


def _refuse_nul(value: Any) -> None:
    """Raise InvalidText for a NUL in a key or string, which PostgreSQL cannot store."""
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in _SQL_FIELDS}
    if _NUL in json.dumps(value).replace("\\\\", "").encode():
        raise InvalidText("The body contains a NUL character (U+0000), which no value may contain.")
