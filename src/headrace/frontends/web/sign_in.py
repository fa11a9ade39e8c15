"""Sign-in and sign-out of a browser. The cookie has a token that the sign-out revokes."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.identity.api_tokens import ApiTokens
from headrace.control.identity.credentials import BearerToken, Credentials, from_password
from headrace.control.policy import Caller
from headrace.errors import HeadraceError, TooManyFailures, Unauthorized
from headrace.frontends.http.auth import (
    COOKIE,
    WEB_PREFIX,
    WEB_SIGN_IN_PATH,
    Authenticated,
    node_of,
    read_cookie,
)
from headrace.frontends.http.refusals import address_of, record_refusal
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import find_root, redirect, render

_START = "statements"
_PAGE = re.compile(
    r"[A-Za-z0-9_%~-][A-Za-z0-9_.%~-]*(/[A-Za-z0-9_%~-][A-Za-z0-9_.%~-]*)*(\?[^#\s\\]*)?"
)
"""A link below the folder of the pages, which leads to no other site."""
_MAX_PAGE = 2000
_NO_COOKIE = "The browser has not kept the cookie. Allow cookies for this site, then sign in again."
_DONE = "done"
"""Parameter of the link to which a sign-in leads, where the browser must have the cookie."""

_RENEWALS = 20
"""Number of times within its lifetime that a sign-in of a browser in use is renewed at most."""
_MAX_KNOWN = 10_000

router = APIRouter(include_in_schema=False)


class BrowserRenewals:
    """When the sign-ins of browsers were renewed at this node."""

    def __init__(self, lifetime: timedelta) -> None:
        self._lifetime = lifetime
        self._renewed: OrderedDict[str, float] = OrderedDict()

    async def renew(self, tokens: ApiTokens, caller: Caller) -> None:
        """Let the sign-in of a browser last a lifetime from now, unless it was renewed lately."""
        token_id, now = caller.token_id, time.monotonic()
        if token_id is None:
            return
        latest = now - self._lifetime.total_seconds() / _RENEWALS
        if self._renewed.get(token_id, float("-inf")) > latest:
            return
        self._renewed[token_id] = now
        self._renewed.move_to_end(token_id)
        if len(self._renewed) > _MAX_KNOWN:
            self._renewed.popitem(last=False)
        await run_in_threadpool(tokens.renew, token_id, self._lifetime)


async def _find_visitor(request: Request, caller: Authenticated) -> Caller:
    """Return the caller, who opens a page: that renews the sign-in of the browser."""
    if read_cookie(request) is not None:
        renewals: BrowserRenewals = request.app.state.browser_renewals
        await renewals.renew(node_of(request).tokens, caller)
    return caller


Visitor = Annotated[Caller, Depends(_find_visitor)]
"""Parameter of a handler of a page: the caller."""


@router.get(WEB_SIGN_IN_PATH)
def show_sign_in(request: Request) -> Response:
    """Show the form; after a sign-in, lead to the page that the user wanted to open."""
    page = _read_page(request.query_params.get("page"))
    if node_of(request).authenticator.is_open:
        return redirect(f"{find_root(WEB_SIGN_IN_PATH)}{page}")
    if _DONE not in request.query_params:
        return _show_form(request, page)
    if read_cookie(request) is None:
        return _show_form(request, page, Unauthorized(_NO_COOKIE))
    return redirect(f"{find_root(WEB_SIGN_IN_PATH)}{page}")


@router.post(WEB_SIGN_IN_PATH)
async def sign_in(request: Request) -> Response:
    """Check credentials, and give the browser a cookie for them."""
    form = await read_form(request)
    page, node = _read_page(form.get("page")), node_of(request)
    try:
        caller = await to_thread.run_sync(
            node.authenticator.identify,
            _read_credentials(form.get("user", ""), form.get("secret", ""), address_of(request)),
            limiter=request.app.state.password_checks,
        )
    except (Unauthorized, TooManyFailures) as error:
        record_refusal(request, error)
        return _show_form(request, page, error)
    lifetime = node.settings.web.sign_in_lifetime
    token = await run_in_threadpool(node.tokens.sign_in_browser, caller, lifetime)
    response = redirect(f"sign-in?{urlencode({'page': page, _DONE: '1'})}")
    # Without a path, the cookie belongs to the folder of the pages, as the browser sees it behind a
    # proxy; without an age, it ends with the browser.
    response.set_cookie(
        COOKIE, token, path=None, httponly=True, samesite="lax", secure=_is_encrypted(request)
    )
    return response


@router.post(f"{WEB_PREFIX}/sign-out")
async def sign_out(request: Request, caller: Authenticated) -> Response:
    """Revoke the token of the browser, and delete its cookie."""
    await read_form(request)
    await run_in_threadpool(node_of(request).tokens.sign_out, caller)
    response = redirect("sign-in")
    response.set_cookie(COOKIE, "", max_age=0, path=None, httponly=True, samesite="lax")
    return response


def _show_form(request: Request, page: str, error: HeadraceError | None = None) -> Response:
    settings = node_of(request).settings.auth
    return render(
        request,
        "sign_in.html",
        caller=None,
        http_status=200 if error is None else error.status,
        page=page,
        has_directory=settings.ldap is not None,
        error=error,
    )


def _read_page(text: str | None) -> str:
    """Return the page that the user wanted to open, or the first page if it is none of ours."""
    if text is None or len(text) > _MAX_PAGE or _PAGE.fullmatch(text) is None:
        return _START
    return text


def _read_credentials(user: str, secret: str, address: str) -> Credentials:
    """Return what the user has entered: a token, or a name with a password."""
    secret = secret.strip() if not user else secret
    return from_password(user, secret, address) if user else BearerToken(secret)


def _is_encrypted(request: Request) -> bool:
    """Return whether the browser speaks HTTPS, to the node or to a proxy before it."""
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")
