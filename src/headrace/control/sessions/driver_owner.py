"""For whom a driver acts: from the stored owner of its session to a user of the system.

No request influences this choice. An owner without a user of the system gets no driver: drivers of
an owner never run as the user of the node instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.config.auth import LOCAL_SOURCE, AuthSettings
from headrace.config.profiles import OWNER_TEMPLATES, Profile
from headrace.config.settings import Settings
from headrace.control.places import owner_folder, to_file_name
from headrace.control.sessions.launch_request import ActingOwner
from headrace.errors import LaunchFailed
from headrace.files.places import join, local_path
from headrace.model.identity import GROUP_PREFIX
from headrace.model.stream_query import ADHOC_SCOPE
from headrace.store.database import Tx
from headrace.store.identity import users
from headrace.store.streams import stream_queries

OWNERS = "owners"
"""Folder of the results location in which each owner has a folder."""

_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
"""A portable name of POSIX. Names with capitals are mapped by the settings only."""
_SUPERUSERS = frozenset(
    {
        *("root", "daemon", "bin", "sys", "hadoop", "hdfs", "yarn", "mapred", "hive"),
        *("hbase", "spark", "kms", "knox", "oozie", "livy", "impala", "zookeeper", "http"),
    }
)
"""Users of hosts and clusters with rights over others. Names of callers never stand for them."""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_HASH = 10
"""Number of hexadecimal digits that distinguish owners with similar names."""
_LONGEST_STEM = 30


def find_acting_owner(
    tx: Tx, settings: Settings, owner: str, profile: Profile
) -> ActingOwner | None:
    """Return the owner as whom the drivers of a profile run; None: they run as the node.

    Raises LaunchFailed if the owner is disabled, or the system of the profile does not know it.
    """
    user = users.get(tx, owner)
    if user is not None and user.disabled_at is not None:
        raise LaunchFailed(
            f"No driver starts for {owner!r}: the user is disabled.",
            hint=f"An administrator enables it again: headrace user enable {owner}.",
        )
    if profile.run_as == "node":
        return None
    on_kubernetes = profile.master.startswith("k8s://")
    is_local = not profile.is_remote
    has_warehouse = is_local and settings.catalog.warehouse is None
    warehouse = join(settings.warehouse, to_file_name(owner)) if has_warehouse else None
    return ActingOwner(
        run_as=label_of(owner) if on_kubernetes else choose_system_user(tx, settings.auth, owner),
        is_local=is_local,
        results=results_of(settings, owner, profile),
        warehouse=warehouse or settings.warehouse,
        folders=tuple(_list_folders(settings, owner, profile, warehouse)) if is_local else (),
    )


def results_of(settings: Settings, owner: str, profile: Profile) -> str:
    """Return where the drivers of an owner write stored results.

    Drivers that run as several users of this host cannot share a folder: each owner has one.
    """
    location = settings.results_location
    is_shared = profile.run_as == "node" or profile.is_remote or local_path(location) is None
    return location if is_shared else join(location, OWNERS, to_file_name(owner))


def _list_folders(
    settings: Settings, owner: str, profile: Profile, warehouse: str | None
) -> Iterator[Path]:
    job_id = to_file_name(stream_queries.job_id(owner, ADHOC_SCOPE))
    yielded = [
        results_of(settings, owner, profile),
        join(settings.checkpoints, job_id),
        join(settings.streams_location, job_id),
        join(settings.streams_location, f"jobs-{owner_folder(owner)}"),
        warehouse,
        None if settings.jobs.state_location else join(settings.jobs_location, owner_folder(owner)),
    ]
    for location in yielded:
        if location is not None and (path := local_path(location)) is not None:
            yield path


def choose_system_user(tx: Tx, auth: AuthSettings, owner: str) -> str:
    """Return the name of the system's user as whom the drivers of an owner run.

    An entry of `auth.system_users` comes first, then the name of a user of `name_source`.

    Raises LaunchFailed if the owner has no user of the system.
    """
    mapping = auth.system_users
    if owner.startswith(GROUP_PREFIX):
        source, _, name = owner.removeprefix(GROUP_PREFIX).partition(":")
        chosen = mapping.groups.get(source, {}).get(name)
        if chosen is None:
            raise _no_user(owner, f"Set auth.system_users.groups.{source}.{name}.")
        return chosen
    user = users.get(tx, owner)
    if user is None:
        raise _no_user(owner, "It has never signed in.")
    source = auth.name_of_source(user.source)
    chosen = mapping.users.get(source, {}).get(user.subject)
    if chosen is not None:
        return chosen
    hint = f"Set auth.system_users.users.{source}.{user.subject}."
    if source != _name_source(auth):
        raise _no_user(owner, f"Its name counts for one source only (name_source). {hint}")
    if _NAME.fullmatch(user.name) is None or user.name in _SUPERUSERS:
        raise _no_user(owner, f"Its name {user.name[:64]!r} cannot be that of one. {hint}")
    if user.name in mapping.mapped:
        raise _no_user(owner, f"Its name {user.name!r} is that of another owner's user. {hint}")
    return user.name


def _name_source(auth: AuthSettings) -> str | None:
    """Return the source whose names of users are those of the system; None: no such source."""
    if auth.system_users.name_source is not None:
        return auth.system_users.name_source
    sources = auth.sources or [LOCAL_SOURCE]
    return sources[0] if len(sources) == 1 else None


def _no_user(owner: str, hint: str) -> LaunchFailed:
    return LaunchFailed(
        f"The driver cannot run as its owner: no user of the system is known for {owner!r}.",
        hint=f"{hint} See docs/guides/share-a-server.md.",
    )


def fill_templates(profile: Profile, owner: str) -> Profile:
    """Return a profile with the label of an owner for `{owner}` in its templates.

    Raises LaunchFailed if a namespace or service account of Kubernetes would be no DNS label.
    """
    if profile.run_as == "node":
        return profile
    filled: dict[str, str] = {}
    for key in OWNER_TEMPLATES & profile.conf.keys():
        filled[key] = profile.conf[key].replace("{owner}", label_of(owner))
        if _LABEL.fullmatch(filled[key]) is None:
            raise LaunchFailed(
                f"{key} would be {filled[key]!r} for the owner {owner!r}, which is no DNS label:"
                " at most 63 of a-z, 0-9 and -.",
                hint="Shorten the template in the profile.",
            )
    return profile.model_copy(update={"conf": {**profile.conf, **filled}}) if filled else profile


def label_of(owner: str) -> str:
    """Return a DNS label for an owner, at most 41 characters. Two owners never share a label."""
    stem = re.sub(r"[^a-z0-9]+", "-", owner.lower())[:_LONGEST_STEM].strip("-") or "owner"
    return f"{stem}-{hashlib.sha256(owner.encode()).hexdigest()[:_HASH]}"
