"""Sign-in and sign-out of a browser. The cookie has a token that the sign-out revokes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlencode, urlsplit

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.identity.code_flow import ATTEMPT_SECONDS, SignInAttempt
from headrace.control.identity.credentials import (
    BearerToken,
    BrowserToken,
    Credentials,
    from_password,
)
from headrace.control.node import Node
from headrace.errors import HeadraceError, SignInUnavailable, TooManyFailures, Unauthorized
from headrace.frontends.http.auth import (
    WEB_CALLBACK_PATH,
    WEB_OIDC_PATH,
    WEB_PREFIX,
    WEB_SIGN_IN_PATH,
    WEB_SIGN_OUT_PATH,
    Authenticated,
    list_cookies,
    name_sign_in_cookie,
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
_ATTEMPT = "headrace_attempt_"
"""Begin of the names of cookies of sign-ins that have begun. Two tabs have two of them."""
_MAX_ATTEMPTS = 5
"""Largest number of them in a browser: servers refuse long headers."""
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
        until = node.authenticator.find_expiry(credentials)
        token = await run_in_threadpool(node.tokens.sign_in_browser, caller, lifetime, until)
    except (Unauthorized, TooManyFailures) as error:
        record_refusal(request, error)
        return _show_form(request, page, error)
    await run_in_threadpool(_end_former_sign_in, node, find_cookie(request))
    response = redirect(f"sign-in?{urlencode({'page': page, _DONE: '1'})}")
    # Without a path, the cookie belongs to the folder of the pages, as the browser sees it behind a
    # proxy; without an age, it ends with the browser.
    response.set_cookie(
        name_sign_in_cookie(request),
        token,
        path=None,
        httponly=True,
        samesite="lax",
        secure=_is_encrypted(request),
    )
    return response


@router.get(WEB_OIDC_PATH)
async def begin_code_flow(request: Request) -> Response:
    """Lead the browser to an issuer, and give it a cookie with which it continues the sign-in."""
    node, page = node_of(request), _read_page(request.query_params.get("page"))
    if node.authenticator.is_open:
        return redirect(f"{find_root(WEB_OIDC_PATH)}{page}")
    attempt = SignInAttempt.begin(request.query_params.get("issuer", ""), page)
    try:
        link = await to_thread.run_sync(
            node.authenticator.code_flows.begin, attempt, limiter=request.app.state.code_flows
        )
    except SignInUnavailable as error:
        return _show_form(request, page, error)
    response = redirect(link)
    for former in _list_attempts(request)[_MAX_ATTEMPTS - 1 :]:
        _delete_attempt(response, former)
    # Without a path, the cookie belongs to the folder of this path and of the callback.
    response.set_cookie(
        _name_cookie(attempt.state),
        attempt.text,
        max_age=ATTEMPT_SECONDS,
        path=None,
        httponly=True,
        samesite="lax",
        secure=_has_public_tls(node),
    )
    return response


@router.get(WEB_CALLBACK_PATH)
async def finish_code_flow(request: Request) -> Response:
    """Sign in the browser that an issuer has sent back, and lead it to the page it wanted."""
    node, answer = node_of(request), dict(request.query_params)
    name = _name_cookie(answer.get("state", ""))
    texts = [value for each, value in list_cookies(request) if each == name]
    # A program at another port of the host may have set a second one.
    attempt = SignInAttempt.read(texts[0]) if len(texts) == 1 else None
    page = _read_page(None if attempt is None else attempt.page)
    try:
        token = await to_thread.run_sync(
            _finish_sign_in,
            *(node, attempt, answer, address_of(request)),
            limiter=request.app.state.code_flows,
        )
    except (Unauthorized, SignInUnavailable) as error:
        record_refusal(request, error)
        response = _show_form(request, page, error)
    else:
        await run_in_threadpool(_end_former_sign_in, node, find_cookie(request))
        query = urlencode({"page": page, _DONE: "1"})
        response = redirect(f"{find_root(WEB_CALLBACK_PATH)}sign-in?{query}")
        # The path that the cookie of the form gets from the browser.
        response.set_cookie(
            name_sign_in_cookie(request),
            token,
            path=f"{urlsplit(node.authenticator.code_flows.public_address).path}{WEB_PREFIX}",
            httponly=True,
            samesite="lax",
            secure=_has_public_tls(node),
        )
    if attempt is not None:
        _delete_attempt(response, attempt)
    # The address has the code. With `no-referrer`, the form of the page would have no origin.
    response.headers["Referrer-Policy"] = "strict-origin"
    return response


def _finish_sign_in(
    node: Node, attempt: SignInAttempt | None, answer: Mapping[str, str], address: str
) -> str:
    """Return the token for the cookie of a browser that an issuer has sent back."""
    caller = replace(node.authenticator.finish_code_flow(attempt, answer), address=address)
    return node.tokens.sign_in_browser(caller, node.settings.web.sign_in_lifetime)


def _name_cookie(state: str) -> str:
    """Return the name of the cookie that keeps the attempt with a state."""
    return f"{_ATTEMPT}{state[:16]}"


def _list_attempts(request: Request) -> list[SignInAttempt]:
    """Return the sign-ins that the browser has begun, newest first."""
    read = [
        SignInAttempt.read(value)
        for name, value in list_cookies(request)
        if name.startswith(_ATTEMPT)
    ]
    attempts = [each for each in read if each is not None]
    return sorted(attempts, key=lambda each: each.started_at, reverse=True)


def _delete_attempt(response: Response, attempt: SignInAttempt) -> None:
    name = _name_cookie(attempt.state)
    response.set_cookie(name, "", max_age=0, path=None, httponly=True, samesite="lax")


def _has_public_tls(node: Node) -> bool:
    return node.authenticator.code_flows.public_address.startswith("https:")


@router.post(WEB_SIGN_OUT_PATH)
async def sign_out_from_form(request: Request, caller: Authenticated) -> Response:
    """Revoke the token of the browser, and delete its cookie."""
    await read_form(request)
    await run_in_threadpool(node_of(request).tokens.sign_out, caller)
    response = redirect("sign-in")
    name = name_sign_in_cookie(request)
    response.set_cookie(name, "", max_age=0, path=None, httponly=True, samesite="lax")
    return response


def _end_former_sign_in(node: Node, cookie: str | None) -> None:
    """Revoke the token of the cookie that the new one replaces."""
    with suppress(Unauthorized):
        if cookie is not None:
            node.tokens.sign_out(node.authenticator.identify(BrowserToken(cookie)))


def _show_form(request: Request, page: str, error: HeadraceError | None = None) -> Response:
    node = node_of(request)
    start = f"{node.authenticator.code_flows.public_address}{WEB_OIDC_PATH}"
    return render(
        request,
        "sign_in.html",
        caller=None,
        http_status=200 if error is None else error.status,
        page=page,
        has_directory=node.settings.auth.ldap is not None,
        # Only below this address does the browser have the cookie when it comes back.
        issuers={
            issuer: f"{start}?{urlencode({'issuer': issuer, 'page': page})}"
            for issuer in node.authenticator.code_flows.issuers
        },
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
