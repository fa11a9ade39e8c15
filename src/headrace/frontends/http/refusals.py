"""Requests that are refused, in log and audit; limited so that callers can fill neither."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request

from headrace.control.policy import Caller
from headrace.errors import (
    ClientCertificateMissing,
    HeadraceError,
    NotPermitted,
    TooManyFailures,
    Unauthorized,
)
from headrace.model.audit import AuditAction

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

    def record(self, address: str, method: str, path: str, reason: str) -> int | None:
        """Record one failure, or only count it.

        Return the number of failures that were only counted before this record; None: this failure
        is only counted, too.

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
            return None
        self._logged_at[address] = now
        counted, self._not_logged = self._not_logged, 0
        skipped = f" ({counted} more since the last line)" if counted else ""
        _LOG.warning(
            "authentication failed: address %a, %s %a: %s%s",
            address[:_TEXT_LENGTH],
            method,
            path[:_TEXT_LENGTH],
            reason,
            skipped,
        )
        return counted


def record_refusal(request: Request, error: HeadraceError) -> None:
    """Record in log and audit a request that was refused because of its caller, and no other one.

    The response to a request for an object of another owner does not say that there is one. The
    audit does.
    """
    address, path = address_of(request), request.url.path
    audit = request.app.state.node.context.audit
    if isinstance(error, Unauthorized | ClientCertificateMissing | TooManyFailures):
        failures: AuthenticationFailures = request.app.state.authentication_failures
        counted = failures.record(address, request.method, path, error.message)
        if counted is not None:
            detail = _describe(request) | {"reason": error.message, "counted_before": counted}
            audit.record_refusal(AuditAction.SIGN_IN_FAILED, None, address, detail)
    elif isinstance(error, NotPermitted) or error.is_foreign:
        caller: Caller | None = getattr(request.state, "caller", None)
        detail = _describe(request) | {"code": error.code}
        audit.record_refusal(AuditAction.REQUEST_DENIED, caller, address, detail)


def address_of(request: Request) -> str:
    """Return the IP address of a client, or of the proxy before the node."""
    return request.client.host if request.client else "unknown"


def _describe(request: Request) -> dict[str, object]:
    return {"method": request.method, "path": request.url.path[:_TEXT_LENGTH]}
