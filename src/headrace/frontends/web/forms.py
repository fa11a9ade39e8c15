"""The forms of pages: their fields, and the token that shows that a page of the node sent them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from headrace.errors import BodyTooLarge, ForeignOrigin, InvalidRequest
from headrace.frontends.http.auth import read_cookie

TOKEN_FIELD = "form_token"  # noqa: S105 - the name of a field
_MAX_FIELDS = 100
_MAX_BYTES = 64 * 1024
"""Largest form: anybody can send one to the sign-in."""
_PURPOSE = b"headrace form"


async def read_form(request: Request, *, max_bytes: int = _MAX_BYTES) -> Mapping[str, str]:
    """Return the fields of a form that a page has sent.

    `BrowserRules` has refused forms of other sites. With a cookie, the form must also have the
    token that belongs to the cookie.

    Raises:
        InvalidRequest: The body is not that of a form, or is too large for one.
        ForeignOrigin: The form does not have the token of the browser's cookie.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise InvalidRequest("The body is not that of a form.")
    try:
        text = (await _read_body(request, max_bytes)).decode()
        # To decode a large form takes a while.
        is_large = len(text) > _MAX_BYTES
        pairs = await run_in_threadpool(_parse_pairs, text) if is_large else _parse_pairs(text)
        fields = dict(pairs)
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidRequest("The form cannot be read.") from error
    cookie = read_cookie(request)
    if cookie is not None:
        sent = fields.get(TOKEN_FIELD, "").encode()
        if not hmac.compare_digest(sent, make_form_token(cookie).encode()):
            raise ForeignOrigin(
                "The form was made for another sign-in.", hint="Load the page again, and repeat it."
            )
    return fields


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)


async def _read_body(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise BodyTooLarge(f"The form has at most {max_bytes} bytes.")
    return bytes(body)


def make_form_token(cookie: str) -> str:
    """Return the token of the forms of a browser. Every node derives it from the cookie."""
    return hmac.new(cookie.encode(), _PURPOSE, hashlib.sha256).hexdigest()
