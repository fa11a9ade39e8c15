"""Errors of locations: paths and URIs that users, settings and statements give."""

from __future__ import annotations

from headrace.errors.refusals import InvalidRequest


class InvalidLocation(InvalidRequest):
    """The location is not valid."""

    code = "invalid_location"
