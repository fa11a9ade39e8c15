"""The values of secrets: which owners may use them, their sources, and which drivers have them.

`Secrets.find` is the only place in which a reference gets its value: for the bootstrap of a driver,
and for a driver that asks. The store never has a value. A node reads the value again for each use,
so that the next start of a driver uses a changed secret.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headrace.config.sections import SECRET_NAME
from headrace.config.settings import Settings
from headrace.control.worker_pool import WorkerPool
from headrace.errors import (
    InvalidSecret,
    ResultsUnavailable,
    SecretDenied,
    SecretNotFound,
    SecretUnavailable,
)
from headrace.grammar.secret_references import KnownSecrets, make_reference
from headrace.model.identity import GROUP_PREFIX, group_owner
from headrace.store.database import Tx
from headrace.store.identity import users
from headrace.text.durations import format_duration

SHORTEST = 8
"""Characters of the shortest value. Other texts would contain a shorter one by chance."""
LARGEST = 64 * 1024
"""Bytes of the largest value."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_THREADS = 8
_MAX_SESSIONS = 10_000
"""Sessions whose values a node knows, so that it can put references into their reports and logs."""


class Secrets:
    """Finds the values of secrets. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.secrets
        self._auth = settings.auth
        seconds = self._settings.timeout.total_seconds()
        self._timeout = format_duration(self._settings.timeout)
        self._pool = WorkerPool("secrets", threads=_THREADS, seconds=seconds)
        self._known: OrderedDict[str, KnownSecrets] = OrderedDict()
        self._lock = threading.Lock()

    def list_owners(self, tx: Tx, owner: str) -> frozenset[str]:
        """Return an owner, with its groups if it is a user; nothing for a user who is disabled."""
        if owner.startswith(GROUP_PREFIX):
            return frozenset({owner})
        user = users.get(tx, owner)
        if user is None or user.disabled_at is not None:
            return frozenset()
        source = self._auth.name_of_source(user.source)
        return frozenset({owner, *(group_owner(source, name) for name in user.groups)})

    def find(self, names: Sequence[str], owners: frozenset[str] | None) -> dict[str, str]:
        """Return the values of secrets by name. The provider is asked for each of them.

        Args:
            owners: Owners that use the secrets; None: the operator of the node, in a profile.

        Raises:
            SecretDenied: None of the owners may use a secret.
            SecretNotFound: The provider has no such secret.
            InvalidSecret: A value is too short or too large, or has a character that is not
                allowed.
            SecretUnavailable: There is no provider, or it does not answer.
        """
        for name in names:
            # A driver chooses the names, and a name can be that of a file.
            is_name = re.fullmatch(SECRET_NAME, name) is not None
            if not is_name or (owners is not None and not self._settings.may_use(name, owners)):
                raise SecretDenied(
                    f"The owner of the session may not use {make_reference(name)}.",
                    hint="An administrator can list the owner, or one of its groups, in"
                    f" secrets.allowed.{name}.",
                )
        return {name: _check_value(name, self._read(name)) for name in names}

    def remember(self, session_id: str, values: Mapping[str, str]) -> None:
        """Remember that the drivers of a session have these values."""
        if values:
            self._get_known(session_id).add(values)

    def known_of(self, session_id: str) -> KnownSecrets:
        """Return the values that this process has given to the drivers of a session."""
        with self._lock:
            return self._known.get(session_id, _NOTHING)

    def _get_known(self, session_id: str) -> KnownSecrets:
        with self._lock:
            known = self._known.setdefault(session_id, KnownSecrets())
            self._known.move_to_end(session_id)
            if len(self._known) > _MAX_SESSIONS:
                self._known.popitem(last=False)
            return known

    def _read(self, name: str) -> bytes:
        provider = self._settings.provider
        if provider is None:
            raise SecretUnavailable(
                f"The node has no provider of secrets, and so no value for {make_reference(name)}.",
                hint="Set secrets.provider on every node.",
            )
        if provider == "environment":
            value = os.environb.get(os.fsencode(self._settings.environment_prefix + name))
            if value is None:
                raise _not_found(name)
            return value
        try:
            if provider == "files":
                return self._pool.call(self._read_file, name)
            return self._run_command(name)
        except ResultsUnavailable:
            raise SecretUnavailable(
                f"The provider of secrets did not answer within {self._timeout} for"
                f" {make_reference(name)}."
            ) from None
        except OSError as error:
            if provider == "files" and isinstance(error, FileNotFoundError):
                raise _not_found(name) from None
            raise SecretUnavailable(
                f"The provider of secrets failed for {make_reference(name)}: {error.strerror}."
            ) from error

    def _read_file(self, name: str) -> bytes:
        assert self._settings.folder is not None
        # Kubernetes and others put links there. A pipe must not block.
        descriptor = os.open(self._settings.folder / name, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise InvalidSecret(f"What holds {make_reference(name)} is not a file.")
            if mode & stat.S_IRWXO:
                raise InvalidSecret(
                    f"Every user of the host can access the file of {make_reference(name)}.",
                    hint="Run chmod o= on the file.",
                )
            return file.read(LARGEST + 3)

    def _run_command(self, name: str) -> bytes:
        process = subprocess.Popen(
            [*self._settings.command, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # Standard error may quote the value.
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            value, status = self._pool.call(_read_output, process)
        finally:
            # The program and its child processes. Until `wait`, no other process has its id.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status != 0 and len(value) <= LARGEST:
            raise SecretUnavailable(
                f"The command of secrets.command failed for {make_reference(name)}: exit status"
                f" {status}."
            )
        return value


_NOTHING = KnownSecrets()


def _read_output(process: subprocess.Popen[bytes]) -> tuple[bytes, int]:
    """Return the output of a program, up to a little more than allowed, and its exit status."""
    assert process.stdout is not None
    with process.stdout as stream:
        value = stream.read(LARGEST + 3)
    return value, 0 if len(value) > LARGEST else _wait_unreaped(process)


def _wait_unreaped(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a program, and return its exit status. Keep its process id in use."""
    result = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert result is not None
    return result.si_status


def _not_found(name: str) -> SecretNotFound:
    return SecretNotFound(f"The node has no secret for {make_reference(name)}.")


def _check_value(name: str, content: bytes) -> str:
    """Return a value as text, without the line break at its end. Raise InvalidSecret."""
    reference = make_reference(name)
    for end in (b"\r\n", b"\n"):
        if content.endswith(end):
            content = content.removesuffix(end)
            break
    if len(content) > LARGEST:
        raise InvalidSecret(f"The value of {reference} is larger than {LARGEST} bytes.")
    try:
        value = content.decode()
    except UnicodeDecodeError:
        raise InvalidSecret(f"The value of {reference} is not UTF-8 text.") from None
    if forbidden := _FORBIDDEN.search(value):
        raise InvalidSecret(
            f"The value of {reference} contains U+{ord(forbidden[0]):04X}. A value is one line"
            " without control characters.",
            hint="Only one line break at its end is ignored.",
        )
    if "${" in value:
        raise InvalidSecret(
            f"The value of {reference} contains '${{', which Spark would replace. A secret cannot"
            " refer to another one."
        )
    if len(value) < SHORTEST:
        raise InvalidSecret(
            f"The value of {reference} has fewer than {SHORTEST} characters. Errors and logs could"
            " contain a shorter value by chance."
        )
    return value
