"""Pages from templates: links that work below any path, security headers, assets, errors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic import BaseModel

from headrace import __version__
from headrace.control.policy import Caller
from headrace.errors import HeadraceError, NotFound, Unauthorized
from headrace.frontends.http.api_route import NamedRoute
from headrace.frontends.http.auth import WEB_PREFIX, WEB_SIGN_IN_PATH, node_of, read_cookie
from headrace.frontends.http.errors import RequestError, find_sent_path
from headrace.frontends.http.refusals import record_refusal
from headrace.frontends.rest.event_feed import event_feed_of
from headrace.frontends.web.forms import make_form_token
from headrace.text.readable import describe_bytes, describe_count, describe_duration, format_utc

_FOLDER = Path(__file__).parent
_BUILT = _FOLDER / "assets" / "built"
_SCRIPT = "pages.js"
_BUILT_FILES = frozenset({_SCRIPT, "editor.js", "charts.js", "charts.css", "history.js"})
"""Files that `scripts/setup-web` builds."""
_ASSETS = {
    "headrace.css": "text/css",
    "icon.svg": "image/svg+xml",
    "charts.css": "text/css",
    **{name: "text/javascript" for name in _BUILT_FILES if name.endswith(".js")},
}
"""Files that the pages load, with their media types."""
_DIGITS = 12
"""Length of the hash in the name of an asset."""
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    # The next user of the browser must not see the page.
    "Cache-Control": "no-store",
}
_PAUSE_PER_STREAM = 0.15
"""Seconds by which each stream of events makes the pause between two refreshes of a page longer, so
that the refreshes of many pages together take a small part of the time of the node."""
REFRESHES = 1
"""Refreshes that a node makes at once."""
_REGION = '<div id="live"'
"""Begin of the part of a page that is fetched again."""
_COUNTED = re.compile(r"(<span data-(?:since|until)=[^>]*>)[^<]*")
_SHOWN_DIGITS = 32
_LONGEST_AGE = 365 * 24 * 3600
_COUNT_DIGITS = 10


class PageRoute(NamedRoute):
    """A route of pages. The refreshes of open pages take turns.

    A page is made in a thread. Many threads at once would take the time of the event loop, which
    answers other callers.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        handle = super().get_route_handler()

        async def take_turn(request: Request) -> Response:
            if "hx-request" not in request.headers:
                return await handle(request)
            async with request.app.state.page_refreshes:
                return await handle(request)

        return take_turn


def make_router() -> APIRouter:
    """Return a router for pages."""
    return APIRouter(prefix=WEB_PREFIX, route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """What the live part of a page needs to follow its objects."""

    link: str
    """From where it is fetched again."""
    build: str
    """Version of the node and of its scripts."""
    pause: float
    """Shortest time between two refreshes, in seconds, with as many open pages as there are."""


def find_root(path: str) -> str:
    """Return the relative link from a page to the folder of all pages, for example `../`.

    A browser resolves it below the prefix of a proxy, which the node does not know.

    Args:
        path: As it was sent: an escaped slash divides no folders.
    """
    if path == WEB_PREFIX:
        return f"{WEB_PREFIX.removeprefix('/')}/"
    # The first two are those before and behind the folder itself, which may have escapes, too.
    return "../" * (path.count("/") - 2) or "./"


def render(
    request: Request,
    template: str,
    *,
    caller: Caller | None,
    http_status: int = 200,
    now: datetime | None = None,
    link: str | None = None,
    refusal: HeadraceError | None = None,
    **values: Any,
) -> Response:
    """Return a page.

    Args:
        caller: The user who opens the page; None: no user has signed in.
        now: Time of the store, from which the page counts on; None: nothing on it passes.
        link: From where the live part of the page is fetched again; None: from its address.
        refusal: Why an action of this page was refused; the error stays until the next action. The
            page has the address of the action, which can be opened, too.
        values: What the template shows.
    """
    if refusal is not None:
        if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise refusal  # the page may be as broken as its action
        record_refusal(request, refusal)
        http_status = refusal.status
    cookie = find_cookie(request)
    html = (
        _environment()
        .get_template(template)
        .render(
            root=find_root(find_sent_path(request.scope)),
            section=request.scope["path"].removeprefix(f"{WEB_PREFIX}/").partition("/")[0],
            caller=caller,
            can_sign_out=cookie is not None,
            form_token="" if cookie is None else make_form_token(cookie),
            node=node_of(request),
            version=__version__,
            asset=_link_asset,
            script=_SCRIPT if _has_script() else None,
            now=now,
            live=LiveFacts(
                f"?{request.url.query}" if link is None else link,
                _build(),
                round(event_feed_of(request).streams * _PAUSE_PER_STREAM, 1),
            ),
            refusal=refusal,
            **values,
        )
    )
    return _answer(request, html, http_status)


def _answer(request: Request, html: str, http_status: int) -> Response:
    """Return a page; 304 for a refresh that would change nothing on the page of the browser."""
    before, begin, region = html.partition(_REGION)
    if not begin or http_status != 200:
        return HTMLResponse(html, http_status, headers=PAGE_HEADERS)
    # Lengths of time that the page counts itself are no change.
    content = _COUNTED.sub(r"\1", region)
    shown = hashlib.sha256(content.encode(errors="replace")).hexdigest()[:_SHOWN_DIGITS]
    tag = f'"{shown}"'
    if "hx-request" in request.headers and request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={**PAGE_HEADERS, "ETag": tag})
    marked = f'{before}{begin} data-shown="{shown}"{region}'
    return HTMLResponse(marked, http_status, headers={**PAGE_HEADERS, "ETag": tag})


def find_cookie(request: Request) -> str | None:
    """Return the token of the browser; None if it has none, or several."""
    try:
        return read_cookie(request)
    except Unauthorized:
        return None


@dataclass(frozen=True, slots=True)
class Copy:
    """A command that a page offers to copy."""

    name: str
    text: str


def copy_object(path: str, command: str) -> list[Copy]:
    """Return the commands that read an object: by curl with its path below the API, and by CLI."""
    sign_in = '-H "Authorization: Bearer $HEADRACE_TOKEN"'
    return [
        Copy("curl", f'curl {sign_in} "$HEADRACE_SERVER/api/v1/{path}"'),
        Copy("CLI", command),
    ]


def show_json(body: BaseModel | Mapping[str, str | None], *, indent: int | None = 2) -> Response:
    """Return the body of an object in the API, or its properties, for a reader.

    Args:
        indent: Spaces before each level; None: without line breaks, for a script.
    """
    if isinstance(body, BaseModel):
        content = body.model_dump_json(by_alias=True, indent=indent)
    else:
        content = json.dumps(body, ensure_ascii=False, indent=indent)
    return Response(content, media_type="application/json", headers=PAGE_HEADERS)


@dataclass(frozen=True, slots=True)
class Question:
    """What a page asks before it destroys something."""

    text: str
    losses: Sequence[str]
    """What is lost, a sentence each."""
    answer: str
    """Text of the button that does it."""
    back: str
    """Link to the page that keeps everything."""
    count: int = 1
    """How many objects end. A confirmation does not count if there are more by then."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further fields of the form."""
    keep: str = "No, keep it"
    """Text of the link that does nothing."""


def is_confirmed(form: Mapping[str, str], question: Question) -> bool:
    """Return whether the user has confirmed an act on as many objects as there are now."""
    confirmed = form.get("confirmed", "")
    is_number = confirmed.isascii() and confirmed.isdigit() and len(confirmed) < _COUNT_DIGITS
    return is_number and int(confirmed) >= question.count


def ask(request: Request, caller: Caller, question: Question) -> Response:
    """Return the page that asks before an act: its form sends the same request, confirmed."""
    return render(request, "confirm.html", caller=caller, question=question)


def redirect(target: str) -> Response:
    """Return a redirect to a relative link, which the browser opens with GET."""
    return RedirectResponse(target, 303, headers=PAGE_HEADERS)


def render_page_error(error: RequestError) -> Response:
    """Return the page for an error; for missing credentials, a redirect to the sign-in."""
    root = find_root(error.path)
    if error.status == 401 and error.path != WEB_SIGN_IN_PATH:
        page = error.path.removeprefix(f"{WEB_PREFIX}/") if error.method in {"GET", "HEAD"} else ""
        if page and error.query:
            page += f"?{error.query}"
        return redirect(f"{root}sign-in" + (f"?{urlencode({'page': page})}" if page else ""))
    html = (
        _environment()
        .get_template("error.html")
        .render(
            root=root,
            section="",
            caller=None,
            error=error,
            asset=_link_asset,
            script=None,
            now=None,
        )
    )
    return HTMLResponse(html, error.status, headers={**PAGE_HEADERS, **error.headers})


def serve_asset(name: str) -> Response:
    """Return a file that pages load, by its name with or without a hash.

    A node of another version may have made the page: its files get no long life in the cache.

    Raises:
        NotFound: There is no such file.
    """
    stem, _, rest = name.partition(".")
    digest, _, ending = rest.rpartition(".")
    file = f"{stem}.{ending}"
    media_type = _ASSETS.get(file)
    if media_type is None:
        raise NotFound(f"There is no file {name[:100]!r}.")
    try:
        is_same = bool(digest) and digest == _hash_asset(file)
        content = _find_asset(file).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"The file {file!r} was not built: run scripts/setup-web.") from None
    caching = f"public, max-age={_LONGEST_AGE}, immutable" if is_same else "no-cache"
    headers = {"Cache-Control": caching, "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=media_type, headers=headers)


def _link_asset(name: str) -> str:
    """Return the link to a file, relative to the folder of all pages."""
    stem, _, ending = name.partition(".")
    return f"assets/{stem}.{_hash_asset(name)}.{ending}"


def _find_asset(name: str) -> Path:
    """Return the file of an asset. Scripts are built, and may be missing in a checkout."""
    return (_BUILT if name in _BUILT_FILES else _FOLDER / "assets") / name


def _has_script() -> bool:
    return all(_find_asset(name).exists() for name in _BUILT_FILES)


def _build() -> str:
    """Return the version of the node and of its scripts: an open page announces a new one."""
    return f"{__version__} {_hash_asset(_SCRIPT) if _has_script() else ''}"


@cache
def _hash_asset(name: str) -> str:
    content = _find_asset(name).read_bytes()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "instant": format_utc,
        "clock": _format_clock,
        "bytes": lambda number: describe_bytes(number) if number else "",
        "count": describe_count,
        "duration": describe_duration,
        "query": make_query,
        "cell": _write_cell,
    }
    return environment


def _write_cell(text: str) -> Markup:
    """Return a value for a cell. A browser would read a carriage return as the end of a line."""
    return Markup(str(escape(text)).replace("\r", "&#13;"))  # noqa: S704 - escaped


def _format_clock(instant: datetime) -> str:
    """Return an instant for a reader, with its zone: `2026-11-29 06:15:02 UTC`."""
    return format_utc(instant)[:19].replace("T", " ") + " UTC"


def make_query(values: Mapping[str, str | None]) -> str:
    """Return a query string of the values that are set, with `?`; nothing if none is."""
    present = {name: value for name, value in values.items() if value}
    return f"?{urlencode(present)}" if present else ""
