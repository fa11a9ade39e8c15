"""Bodies as RFC 8259 has them: UTF-8, sent as JSON, and nothing that JSON or UTF-8 cannot hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from headrace.errors import InvalidRequest, InvalidText

_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class UnsupportedMediaType(InvalidRequest):
    """The body is not sent as JSON."""

    code = "unsupported_media_type"
    status = 415


class StrictRequest(Request):
    """A request whose body is read strictly."""

    async def json(self) -> Any:
        """The body's value. Raises json.JSONDecodeError, InvalidRequest and InvalidText."""
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
        if _MAY_BE_SURROGATE.search(body):
            _refuse_surrogates(value)
        return value


class StrictRoute(APIRoute):
    """A route whose body must be JSON; its handler reads nothing else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            if takes_body:
                _refuse_media_type(request.headers.get("content-type"))
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def _refuse_media_type(content_type: str | None) -> None:
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/.+\+json", kind):
        sent = f"not as {content_type!r}" if content_type else "and say so in Content-Type"
        raise UnsupportedMediaType(f"Send the body as application/json, {sent}.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON's")


def _refuse_surrogates(value: Any) -> None:
    """JSON can spell half a surrogate pair, which is no character and no text can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        found = ord(error.object[error.start])
        raise InvalidText(
            f"The body holds half a surrogate pair (U+{found:04X}), which is no character."
        ) from None
