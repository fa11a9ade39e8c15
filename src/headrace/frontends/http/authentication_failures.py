"""The log of requests without a valid token, limited so that callers cannot fill it."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request

from headrace.errors import ClientCertificateMissing, Unauthorized

_LOG = logging.getLogger("headrace.auth")

_INTERVAL_SECONDS = 60.0
"""Time for which later failures of an address are only counted."""
_MAX_ADDRESSES = 100
"""Largest number of addresses in one interval; the failures of further ones are only counted."""
_TEXT_LENGTH = 200


class AuthenticationFailures:
    """Logs the first failure of an address in each minute, and counts the following ones.

    Only the event loop calls it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: OrderedDict[str, float] = OrderedDict()
        self._not_logged = 0

    def record(self, address: str, method: str, path: str, reason: str) -> None:
        """Record one failure.

        Args:
            address: IP address of the caller.
            path: Path of the request. It is cut and escaped, because the caller chose it.
            reason: Why the request was refused.
        """
        now = self._clock()
        while self._logged_at and now - next(iter(self._logged_at.values())) >= _INTERVAL_SECONDS:
            self._logged_at.popitem(last=False)
        if address in self._logged_at or len(self._logged_at) >= _MAX_ADDRESSES:
            self._not_logged += 1
            return
        self._logged_at[address] = now
        skipped = f" ({self._not_logged} more since the last line)" if self._not_logged else ""
        self._not_logged = 0
        _LOG.warning(
            "authentication failed: address %a, %s %a: %s%s",
            address[:_TEXT_LENGTH],
            method,
            path[:_TEXT_LENGTH],
            reason,
            skipped,
        )


def log_authentication_failure(
    request: Request, error: Unauthorized | ClientCertificateMissing
) -> None:
    """Log that a request was refused because its token or its certificate is missing or wrong."""
    failures: AuthenticationFailures = request.app.state.authentication_failures
    address = request.client.host if request.client else "unknown"
    failures.record(address, request.method, request.url.path, error.message)
