"""Where files are: how drivers read locations, which places other hosts lack, and names of files.

`files/places.py` has the rules of locations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from headrace.config.sections import EVERY
from headrace.config.settings import Settings
from headrace.control.host.process_identity import HostIdentity, this_host
from headrace.errors import InvalidLocation, InvalidSetting, UnsharedLocation
from headrace.files.listing import S3_SCHEMES
from headrace.files.places import (
    DEFAULT_FS,
    check_has_no_password,
    identify,
    is_below,
    is_relative,
    local_path,
    lower_scheme,
    to_hadoop_form,
)
from headrace.model.node import NodeRecord
from headrace.store import nodes
from headrace.store.database import Tx


class SessionPlaces:
    """The places that locations name in the sessions of one profile and configuration."""

    def __init__(self, settings: Settings, profile: str, conf: Mapping[str, str]) -> None:
        """Use a profile, and the configuration of the session, which overrides the profile's."""
        runs_here = False
        try:
            chosen = settings.profile(profile)
        except InvalidSetting:
            # Only other nodes have the profile.
            self._default_fs = conf.get(DEFAULT_FS)
        else:
            self._default_fs = conf.get(DEFAULT_FS, chosen.conf.get(DEFAULT_FS))
            runs_here = not chosen.is_remote
        reads_here = self._default_fs is None or local_path(self._default_fs) is not None
        self._base = str(settings.driver_folder) if runs_here and reads_here else None

    def to_hadoop_form(self, location: str) -> str:
        """Return a location as Spark gets it. Raises InvalidLocation.

        A relative path becomes absolute if the drivers run on this host: it is relative to their
        working directory. Other drivers resolve it themselves.
        """
        return to_hadoop_form(location, base=self._base)

    def identify(self, location: str) -> str:
        """Return the identity of the place of a location."""
        return identify(location, base=self._base, default_fs=self._default_fs)

    def is_same(self, first: str | None, second: str | None) -> bool:
        """Return whether two locations name one place; None names no place."""
        if first is None or second is None:
            return first is second
        return self.identify(first) == self.identify(second)


_PATTERN_LETTERS = frozenset("*?[{")
_LONGEST_WATCHED = 1024


def check_watched_location(places: SessionPlaces, location: str) -> None:
    """Raise InvalidLocation unless nodes can list the files of a location, and Spark reads them."""
    to_hadoop_form(location)
    if len(location) > _LONGEST_WATCHED:
        raise InvalidLocation(f"`on-files` has more than {_LONGEST_WATCHED:,} characters.")
    if not _PATTERN_LETTERS.isdisjoint(location):
        raise InvalidLocation(
            f"`on-files` is the location of a directory, and {location!r} is a pattern.",
            hint="Write the directory, and for example `pattern: '*.json'` beside `on-files`.",
        )
    if is_relative(location):
        raise InvalidLocation(
            f"`on-files` is {location!r}, which is not absolute.",
            hint="Write an absolute path, or a URI.",
        )
    scheme = lower_scheme(location).partition("://")[0]
    if local_path(location) is None and scheme not in S3_SCHEMES:
        raise InvalidLocation(
            f"`on-files` is {location!r}: nodes list local directories and S3 only.",
            hint="Write a path, or a location such as s3a://bucket/in.",
        )
    if local_path(location) is not None and not places.identify(location).startswith("file:"):
        raise InvalidLocation(
            f"`on-files` is {location!r}, which Spark reads from {DEFAULT_FS}.",
            hint="Write the scheme of the location, for example s3a://bucket/in or file:/in.",
        )


def find_watch_denial(settings: Settings, owners: frozenset[str], location: str) -> str | None:
    """Return why the jobs of an owner may not follow the files of a location; None: they may.

    Links are resolved: a link below an allowed location must not lead to another place.

    Args:
        owners: The owner and its groups; empty for a user who is disabled.
    """
    for parent, listed in settings.jobs.watched_locations.items():
        is_listed = bool(owners) and (EVERY in listed or not owners.isdisjoint(listed))
        if is_listed and (parent == EVERY or is_below(location, parent)):
            return None
    return (
        f"The owner of the job may not follow the files of {location}. An administrator can list"
        " the owner, or one of its groups, for this location in jobs.watched_locations."
    )


def to_file_name(name: str) -> str:
    """Return one segment of a path for a name, which can contain any character.

    Different names have different segments, and no segment leaves the directory.
    """
    segment = quote(name, safe="")
    return segment.replace(".", "%2E") if segment in {".", ".."} else segment


def owner_folder(owner: str) -> str:
    """Return the name of an owner's directory: the owner's name where that is a file name."""
    is_file_name = owner not in {"", ".", ".."} and not {"/", "%", ":"}.intersection(owner)
    return owner if is_file_name else to_file_name(owner)


def find_unshared(settings: Settings) -> dict[str, str]:
    """Return the settings whose value only one host can reach, with these values."""
    locations = {
        "results.location": settings.results_location,
        "streams.checkpoints": settings.checkpoints,
        "streams.location": settings.streams_location,
        "jobs.state_location": settings.jobs.state_location or settings.jobs_location,
    }
    watched = [each for each in settings.jobs.watched_locations if each != EVERY]
    locations |= {f"jobs.watched_locations.{each}": each for each in watched}
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
        "jobs.watched_locations": [*settings.jobs.watched_locations],
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
