"""Users of a directory: a bind checks their passwords (RFC 4513), a search finds their groups.

Each check is a process (`ldap_lookup.py`) that ends at its deadline; few of them run at once. The
node remembers successes for a short time, and the store limits failures.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from headrace.config.auth import LDAP_SOURCE, LdapSettings
from headrace.config.extras import require_extra
from headrace.control.context import NodeContext
from headrace.control.host.child_environment import child_environment
from headrace.control.identity.credentials import (
    WRONG_PASSWORD,
    Identity,
    Password,
    is_printable,
)
from headrace.errors import InvalidSetting, SignInUnavailable, Unauthorized
from headrace.files.private_files import read_secret
from headrace.store.identity import sign_in_failures

_LOG = logging.getLogger("headrace.auth")

_COMMAND = [sys.executable, "-P", "-m", "headrace.control.identity.ldap_lookup"]
_START_SECONDS = 5.0
"""Time that a process has to start, on a busy host."""
_MAX_NAME = 256
_MAX_PASSWORD = 1024
_MAX_CACHED = 10_000
_REFUSAL_SECONDS = 0.4
"""Shortest time of a refusal: the time of a search must not reveal whether a user exists."""
_AWAY_SECONDS = 2.0
"""Time for which a directory that did not answer is not asked again. Otherwise each request would
wait for the directory."""
_AWAY = "The directory of the users does not answer."
_RETRY = "Try again later."


class _Success(NamedTuple):
    identity: Identity
    until: float
    """Time of the process's clock."""


class LdapMethod:
    """Checks passwords at one directory. Its methods wait for the directory until its deadline."""

    def __init__(self, settings: LdapSettings, context: NodeContext) -> None:
        """Check the settings, without a connection.

        Raises:
            PackagesMissing: The extra `ldap` is not installed.
            InvalidSetting: A file of the settings cannot be used.
        """
        require_extra("ldap", "auth.methods with ldap")
        self._settings = settings
        self._database = context.database
        # All users have the address of the proxy: failures of one must not refuse the others.
        self._is_behind_proxy = context.settings.tls.terminated_by_proxy
        self._question()
        self._key = secrets.token_bytes(32)
        self._cached: OrderedDict[bytes, _Success] = OrderedDict()
        self._running: dict[bytes, Future[Identity]] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(settings.max_connections)
        self._away_until = 0.0

    def identify(self, credentials: Password) -> Identity:
        """Return the user with this name and password. Equal requests share one check.

        Raises:
            Unauthorized: The name or the password is wrong.
            TooManyFailures: Too many attempts have failed.
            SignInUnavailable: The directory does not answer in time.
            StoreUnavailable: The store does not answer.
        """
        _check_text(credentials)
        text = f"{credentials.name}\0{credentials.password}"
        key = hmac.digest(self._key, text.encode(), hashlib.sha256)
        cached = self._cached.get(key)
        if cached is not None and time.monotonic() < cached.until:
            return cached.identity
        with self._lock:
            running = self._running.get(key)
            future = running or self._running.setdefault(key, Future())
        if running is None:
            self._run(key, credentials, future)
        return future.result()

    def _run(self, key: bytes, credentials: Password, future: Future[Identity]) -> None:
        """Check a password, and give the result to all threads that wait for it."""
        try:
            identity = self._check(credentials)
            until = time.monotonic() + self._settings.cache.total_seconds()
            with self._lock:
                self._cached[key] = _Success(identity, until)
                self._cached.move_to_end(key)
                while len(self._cached) > _MAX_CACHED:
                    self._cached.popitem(last=False)
        except BaseException as error:  # noqa: BLE001 - other threads must not wait for ever
            future.set_exception(error)
        else:
            future.set_result(identity)
        finally:
            with self._lock:
                del self._running[key]

    def _check(self, credentials: Password) -> Identity:
        """Check a password. Each attempt counts as a failure until it has succeeded."""
        started = time.monotonic()
        self._require_directory()
        who = (credentials.name, "" if self._is_behind_proxy else credentials.address)
        with self._database.write("sign_in.attempt") as tx:
            sign_in_failures.begin(tx, *who)
        try:
            identity = self._ask(credentials)
        except Unauthorized:
            shortest = _REFUSAL_SECONDS * (1 + random.random() / 4)  # noqa: S311 - no secret
            time.sleep(max(0.0, started + shortest - time.monotonic()))
            raise
        except SignInUnavailable:
            with self._database.write("sign_in.take_back") as tx:
                sign_in_failures.take_back(tx, *who)
            raise
        with self._database.write("sign_in.success") as tx:
            sign_in_failures.clear(tx, *who)
        return identity

    def _ask(self, credentials: Password) -> Identity:
        """Ask the directory.

        Raises:
            Unauthorized: The directory has no such user with this password.
            SignInUnavailable: The directory does not answer, or too many sign in at once.
        """
        seconds = self._settings.timeout.total_seconds()
        if not self._slots.acquire(timeout=seconds):
            raise SignInUnavailable("Too many users sign in at the moment.", hint=_RETRY)
        try:
            self._require_directory()
            answer = self._run_process(credentials, seconds)
        finally:
            self._slots.release()
        if "unavailable" in answer:
            self._away_until = time.monotonic() + _AWAY_SECONDS
            _LOG.warning("the directory %s: %s", self._settings.url, answer["unavailable"])
            raise SignInUnavailable(_AWAY, hint=_RETRY)
        if "refused" in answer:
            _LOG.info("the directory %s: %s", self._settings.url, answer["refused"])
            raise Unauthorized(WRONG_PASSWORD)
        return _to_identity(**answer["user"])

    def _require_directory(self) -> None:
        """Raise SignInUnavailable if the directory did not answer a short time ago."""
        if time.monotonic() < self._away_until:
            raise SignInUnavailable(_AWAY, hint=_RETRY)

    def _run_process(self, credentials: Password, seconds: float) -> dict[str, Any]:
        """Return the answer of a process that ends at its deadline."""
        try:
            question = {"settings": self._question(), **_fields(credentials)}
            done = subprocess.run(
                _COMMAND,
                input=json.dumps(question).encode(),
                env=child_environment(),
                capture_output=True,
                timeout=seconds + _START_SECONDS,
                check=False,
            )
        except InvalidSetting as error:
            return {"unavailable": error.message}
        except OSError as error:
            return {"unavailable": f"no process could be started: {error}"}
        except subprocess.TimeoutExpired:
            return {"unavailable": "the process that asks it did not end"}
        if done.returncode == -signal.SIGALRM:
            return {"unavailable": f"no answer in {seconds:g}s"}
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").splitlines()
            return {"unavailable": f"the process that asks it has failed: {lines[-1:]}"}
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _question(self) -> dict[str, Any]:
        """Return the settings for the process. The password of `bind_dn` may change."""
        settings = self._settings
        if settings.ca is not None and not settings.ca.is_file():
            raise InvalidSetting(f"auth.ldap.ca: There is no file {settings.ca}.")
        file: Path | None = settings.bind_password_file
        return {
            **settings.model_dump(mode="json"),
            "seconds": settings.timeout.total_seconds(),
            "bind_password": None if file is None else read_secret(file),
        }


def _fields(credentials: Password) -> dict[str, str]:
    return {"name": credentials.name, "password": credentials.password}


def _check_text(credentials: Password) -> None:
    """Raise Unauthorized for texts that must not reach a directory.

    A bind without a password is a success (RFC 4513, section 5.1.2).
    """
    name, password = credentials.name, credentials.password
    is_name = 0 < len(name) <= _MAX_NAME and is_printable(name)
    # Lone surrogates cannot be encoded.
    is_password = 0 < len(password) <= _MAX_PASSWORD and not _has_surrogates_or_nul(password)
    if not (is_name and is_password):
        raise Unauthorized(WRONG_PASSWORD)


def _has_surrogates_or_nul(text: str) -> bool:
    return any(each == "\0" or "\ud800" <= each <= "\udfff" for each in text)


def _to_identity(subject: str, name: str, groups: list[str]) -> Identity:
    """Return the identity that a directory describes. Raise Unauthorized for odd names."""
    if not all(
        0 < len(each) <= _MAX_NAME and is_printable(each) for each in (subject, name, *groups)
    ):
        _LOG.warning(
            "an entry of a user or of a group has a name that is empty, long or unprintable"
        )
        raise Unauthorized(WRONG_PASSWORD)
    return Identity(LDAP_SOURCE, subject, name, frozenset(groups))
