"""Sign-in and sign-out of a browser. The cookie has a token that the sign-out revokes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.identity.credentials import (
    BearerToken,
    BrowserToken,
    Credentials,
    from_password,
)
from headrace.control.node import Node
from headrace.errors import HeadraceError, TooManyFailures, Unauthorized
from headrace.frontends.http.auth import (
    COOKIE,
    WEB_SIGN_IN_PATH,
    WEB_SIGN_OUT_PATH,
    Authenticated,
    node_of,
    read_cookie,
)
from headrace.frontends.http.refusals import address_of, record_refusal
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import find_cookie, find_root, redirect, render

_START = "statements"
_PAGE = re.compile(
    r"[A-Za-z0-9_%~-][A-Za-z0-9_.%~-]*(/[A-Za-z0-9_%~-][A-Za-z0-9_.%~-]*)*(\?[^#\s\\]*)?"
)
"""A link below the folder of the pages, which leads to no other site."""
_MAX_PAGE = 2000
_NO_COOKIE = "The browser has not kept the cookie. Allow cookies for this site, then sign in again."
_DONE = "done"
"""Parameter of the link to which a sign-in leads, where the browser must have the cookie."""


router = APIRouter(include_in_schema=False)


@router.get(WEB_SIGN_IN_PATH)
def render_sign_in(request: Request) -> Response:
    """Show the form; after a sign-in, lead to the page that the user wanted to open."""
    page = _read_page(request.query_params.get("page"))
    if node_of(request).authenticator.is_open:
        return redirect(f"{find_root(WEB_SIGN_IN_PATH)}{page}")
    if _DONE not in request.query_params:
        return _show_form(request, page)
    try:
        has_cookie = read_cookie(request) is not None
    except Unauthorized as error:
        return _show_form(request, page, error)
    if not has_cookie:
        return _show_form(request, page, Unauthorized(_NO_COOKIE))
    return redirect(f"{find_root(WEB_SIGN_IN_PATH)}{page}")


@router.post(WEB_SIGN_IN_PATH)
async def sign_in_from_form(request: Request) -> Response:
    """Check credentials, and give the browser a cookie for them."""
    form, node = await read_form(request), node_of(request)
    page, address = _read_page(form.get("page")), address_of(request)
    credentials = _read_credentials(form.get("user", ""), form.get("secret", ""), address)
    lifetime = node.settings.web.sign_in_lifetime
    try:
        caller = await to_thread.run_sync(
            node.authenticator.identify, credentials, limiter=request.app.state.password_checks
        )
        caller = replace(caller, address=address)
        token = await run_in_threadpool(node.tokens.sign_in_browser, caller, lifetime)
    except (Unauthorized, TooManyFailures) as error:
        record_refusal(request, error)
        return _show_form(request, page, error)
    await run_in_threadpool(_end_former_sign_in, node, find_cookie(request))
    response = redirect(f"sign-in?{urlencode({'page': page, _DONE: '1'})}")
    # Without a path, the cookie belongs to the folder of the pages, as the browser sees it behind a
    # proxy; without an age, it ends with the browser.
    response.set_cookie(
        COOKIE, token, path=None, httponly=True, samesite="lax", secure=_is_encrypted(request)
    )
    return response


@router.post(WEB_SIGN_OUT_PATH)
async def sign_out_from_form(request: Request, caller: Authenticated) -> Response:
    """Revoke the token of the browser, and delete its cookie."""
    await read_form(request)
    await run_in_threadpool(node_of(request).tokens.sign_out, caller)
    response = redirect("sign-in")
    response.set_cookie(COOKIE, "", max_age=0, path=None, httponly=True, samesite="lax")
    return response


def _end_former_sign_in(node: Node, cookie: str | None) -> None:
    """Revoke the token of the cookie that the new one replaces."""
    with suppress(Unauthorized):
        if cookie is not None:
            node.tokens.sign_out(node.authenticator.identify(BrowserToken(cookie)))


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
    # Browsers read an escaped dot as a dot: `%2e%2e` would leave the folder of the pages.
    return _START if "%2e" in text.partition("?")[0].lower() else text


def _read_credentials(user: str, secret: str, address: str) -> Credentials:
    """Return what the user has entered: a token, or a name with a password."""
    secret = secret.strip() if not user else secret
    return from_password(user, secret, address) if user else BearerToken(secret)


def _is_encrypted(request: Request) -> bool:
    """Return whether the browser speaks HTTPS, to the node or to a proxy before it."""
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")
