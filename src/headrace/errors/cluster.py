"""Errors of nodes that cannot share a store."""

from __future__ import annotations

from headrace.errors.refusals import InvalidSetting


class UnsharedLocation(InvalidSetting):
    """A setting names a place that only one host of the cluster can reach."""

    code = "unshared_location"


class CatalogMismatch(InvalidSetting):
    """The nodes of one store would use different catalogs."""

    code = "catalog_mismatch"
