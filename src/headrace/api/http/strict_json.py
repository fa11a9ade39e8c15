"""JSON bodies as RFC 8259 defines them: in UTF-8, without NaN and unpaired surrogates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from headrace.errors import InvalidRequest, InvalidText

_POSSIBLE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class UnsupportedMediaType(InvalidRequest):
    """The body is not sent as JSON."""

    code = "unsupported_media_type"
    status = 415


class StrictRequest(Request):
    """A request whose body is parsed strictly."""

    async def json(self) -> Any:
        """Parse the body. Raise json.JSONDecodeError, InvalidRequest or InvalidText."""
        body = await self.body()
        try:
            value = json.loads(body.decode(), parse_constant=_refuse_constant)
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
        return value


class StrictRoute(APIRoute):
    """A route whose body must be JSON and is parsed strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route, behind the checks of the body."""
        handler = super().get_route_handler()
        has_body = self.body_field is not None

        async def handle_strictly(request: Request) -> Response:
            if has_body:
                _check_media_type(request.headers.get("content-type"))
            return await handler(StrictRequest(request.scope, request.receive))

        return handle_strictly


def _check_media_type(content_type: str | None) -> None:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not re.fullmatch(r"application/.+\+json", media_type):
        reason = f"not as {content_type!r}" if content_type else "with a Content-Type header"
        raise UnsupportedMediaType(f"Send the body as application/json, {reason}.")


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
