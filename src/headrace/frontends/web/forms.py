"""The forms of pages: their fields, and the token that shows that a page of the node sent them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl

from fastapi import Request

from headrace.errors import ForeignOrigin, InvalidRequest
from headrace.frontends.http.auth import COOKIE

TOKEN_FIELD = "form_token"  # noqa: S105 - the name of a field
_MAX_FIELDS = 100
_PURPOSE = b"headrace form"


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that a page of this browser has sent.

    A browser without a cookie has none of its rights to lose. The origin of its request was checked
    before.

    Raises:
        InvalidRequest: The body is not a form.
        ForeignOrigin: The form does not have the token of the browser's cookie.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise InvalidRequest("The body is not that of a form.")
    try:
        text = (await request.body()).decode()
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidRequest("The form cannot be read.") from error
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        sent = fields.get(TOKEN_FIELD, "").encode()
        if not hmac.compare_digest(sent, make_form_token(cookie).encode()):
            raise ForeignOrigin(
                "The form was made for another sign-in.", hint="Load the page again, and repeat it."
            )
    return fields


def make_form_token(cookie: str) -> str:
    """Return the token of the forms of a browser. Every node derives it from the cookie."""
    return hmac.new(cookie.encode(), _PURPOSE, hashlib.sha256).hexdigest()
