"""Whether the files of a node can serve a cluster whose nodes are on several hosts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.config.settings import Settings
from headrace.control.host.processes import HostIdentity, this_host
from headrace.errors import InvalidLocation, InvalidSetting, UnsharedLocation
from headrace.files.places import check_has_no_password, is_below, local_path
from headrace.model.node import NodeRecord
from headrace.store import nodes
from headrace.store.database import Tx


def find_unshared(settings: Settings) -> dict[str, str]:
    """Return the settings whose value only one host can reach, with these values."""
    locations = {
        "results.location": settings.results_location,
        "streams.checkpoints": settings.checkpoints,
        "streams.location": settings.streams_location,
        "jobs.state_location": settings.jobs.state_location or settings.jobs_location,
    }
    if settings.catalog.kind != "memory":
        locations["catalog.warehouse"] = settings.warehouse
    unshared = {
        name: location
        for name, location in locations.items()
        if not _is_shared(location, settings.cluster.shared_paths)
    }
    if settings.catalog.kind == "managed":
        unshared["catalog.kind"] = "managed"
    return unshared


def check_locations(settings: Settings) -> None:
    """Raise InvalidSetting if a location contains a password, which lists and logs would show."""
    locations: dict[str, list[str | None]] = {
        "results.location": [settings.results.location],
        "results.allowed": [*settings.results.allowed],
        "streams.checkpoints": [settings.streams.checkpoints],
        "streams.location": [settings.streams.location],
        "jobs.state_location": [settings.jobs.state_location],
        "catalog.warehouse": [settings.catalog.warehouse],
    }
    for name, values in locations.items():
        for value in values:
            try:
                check_has_no_password(value or "")
            except InvalidLocation as error:
                message = f"The setting {name} is not valid: {error.message}"
                raise InvalidSetting(message, hint=error.hint) from None


def check_placement(tx: Tx, settings: Settings, *, node_id: str) -> None:
    """Check that the files of this node serve the nodes of other hosts.

    Raises:
        UnsharedLocation: A live node runs on another host, and a setting names a place that only
            this host can reach.
    """
    other = _find_other_host(node for node in nodes.page_live(tx) if node.id != node_id)
    unshared = find_unshared(settings) if other is not None else {}
    if other is None or not unshared:
        return
    host = HostIdentity.from_record(other.host or {}).name
    values = ", ".join(f"{name} ({value})" for name, value in sorted(unshared.items()))
    raise UnsharedLocation(
        f"The node {other.id} on the host {host} uses the same store. These settings name places"
        f" that only this host can reach: {values}.",
        hint="Use catalog.kind external and object storage, or list folders that all hosts mount"
        " under the same path in cluster.shared_paths.",
    )


def _find_other_host(live: Iterable[NodeRecord]) -> NodeRecord | None:
    """Return a node on another machine or in another container, or None."""
    own = this_host()
    return next(
        (
            node
            for node in live
            if node.host and not own.is_same_place_as(HostIdentity.from_record(node.host))
        ),
        None,
    )


def _is_shared(location: str, shared_paths: Iterable[Path]) -> bool:
    if local_path(location) is None:
        return True
    return any(is_below(location, str(shared)) for shared in shared_paths)
