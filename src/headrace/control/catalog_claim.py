"""One store has one catalog: a node that would use another one refuses to start.

The first node records the catalog in the transaction of its registration. Each later node compares
its own catalog with the record. Otherwise a table would exist or not, depending on the node that
has launched the driver.
"""

from __future__ import annotations

import logging
import re
import shlex
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from headrace.config.settings import Settings
from headrace.control.host.metastore import Metastore
from headrace.control.host.process_identity import this_host
from headrace.errors import CatalogMismatch
from headrace.files import places
from headrace.store import catalog_record
from headrace.store.catalog_record import CatalogRecord
from headrace.store.database import Tx

_LOG = logging.getLogger("headrace.node")
_METASTORE_KEYS = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")
_DATABASE_KEYS = (
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hive.javax.jdo.option.ConnectionURL",
)
_NAMED_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.]+\.(uri|url|warehouse)")


def identify_catalog(
    settings: Settings, metastore: Metastore | None, *, creates: bool = True
) -> CatalogRecord:
    """Return the catalog that the drivers of a node with these settings use.

    A catalog that only the drivers know, for example from their `hive-site.xml`, has no key and
    cannot be compared.

    Args:
        creates: Whether to create the id of a managed catalog that is new. Otherwise it is empty.
    """
    if metastore is not None:
        folder, host = metastore.folder.resolve(), this_host()
        catalog_id = metastore.load_catalog_id() if creates else metastore.find_catalog_id()
        return CatalogRecord(
            kind="managed",
            keys={"id": catalog_id or ""},
            place={"folder": str(folder), **host.to_place()},
            description=f"the managed Hive metastore in {folder} on the host {host.name}",
        )
    if settings.catalog.kind == "memory":
        return CatalogRecord(
            kind="memory", keys={}, place=None, description="the memory of each driver"
        )
    keys = _external_keys(settings)
    named = ", ".join(f"{name} = {value}" for name, value in sorted(keys.items()) if value)
    return CatalogRecord(
        kind="external",
        keys=keys,
        place=None,
        description=f"an external catalog ({named or 'the profiles name no address'})",
    )


def claim_catalog(tx: Tx, settings: Settings, own: CatalogRecord, *, node_id: str) -> None:
    """Record the catalog of the store, or compare it with the record.

    Call this in the transaction that registers the node, with the lock on registrations.

    Raises:
        CatalogMismatch: The store has another catalog.
    """
    own = replace(own, node_id=node_id)
    recorded = catalog_record.get(tx)
    if recorded is None:
        catalog_record.put(tx, own)
        return
    _check_claim(tx, settings, own, recorded)
    if own.is_same_as(recorded):
        if own.place != recorded.place or own.keys.keys() - recorded.keys.keys():
            catalog_record.put(tx, own.merged_into(recorded))
        return
    _LOG.warning("the catalog of the store was %s; from now on it is %s", *_describe(recorded, own))
    catalog_record.put(tx, own)


def predict_replacement(tx: Tx, settings: Settings, own: CatalogRecord) -> tuple[str, str] | None:
    """Return that a node would replace the catalog of the store, and how to keep that catalog.

    Nothing changes. Return None if the store has the catalog of the node, or has no record yet.

    Raises:
        CatalogMismatch: The node would refuse to start.
    """
    recorded = catalog_record.get(tx) if catalog_record.has_table(tx) else None
    if recorded is None:
        return None
    _check_claim(tx, settings, own, recorded)
    if own.is_same_as(recorded):
        return None
    theirs, ours = _describe(recorded, own)
    return (
        f"{ours}; the store has {theirs}, which the next node of this home replaces",
        _same_catalog_hint(own, recorded),
    )


def _check_claim(tx: Tx, settings: Settings, own: CatalogRecord, recorded: CatalogRecord) -> None:
    """Raise CatalogMismatch if a node with this catalog may not use the store."""
    users = catalog_record.find_users(tx, own.node_id)
    if own.is_same_as(recorded):
        if own.place != recorded.place and users and recorded.node_id != own.node_id:
            raise _refuse_copy(own, recorded, users)
        return
    dependents = catalog_record.find_dependents(tx)
    # The tables of a catalog in memory end with their drivers in any case.
    is_replaceable = (
        recorded.kind == "memory" or not dependents or settings.catalog.replaces == recorded.id
    )
    if users or not is_replaceable:
        raise _refuse(own, recorded, users, dependents)


def _refuse(
    own: CatalogRecord, recorded: CatalogRecord, users: list[str], dependents: list[str]
) -> CatalogMismatch:
    theirs, ours = _describe(recorded, own)
    reason = f" The catalog of the store is in use by {', '.join(users)}." if users else ""
    if dependents:
        reason += f" The store holds {', '.join(dependents)}."
    return CatalogMismatch(
        f"The nodes of one store share one catalog. This store has {theirs}, which the node"
        f" {recorded.node_id} has recorded. This node would use {ours}.{reason}",
        hint=f"{_same_catalog_hint(own, recorded)} To replace the catalog of the store for good,"
        " stop its nodes with headrace stop --drivers, and start one with catalog.replaces ="
        f' "{recorded.id}".',
    )


def _refuse_copy(own: CatalogRecord, recorded: CatalogRecord, users: list[str]) -> CatalogMismatch:
    theirs, ours = _describe(recorded, own)
    return CatalogMismatch(
        f"This node would use {ours}. It is a copy of the catalog of the store, which is {theirs},"
        f" in use by {', '.join(users)}.",
        hint=_same_catalog_hint(own, recorded),
    )


def _same_catalog_hint(own: CatalogRecord, recorded: CatalogRecord) -> str:
    """Return what to set so that this node uses the catalog of the store."""
    place = recorded.place or {}
    if recorded.place is not None and recorded.place == own.place:
        return f"Restore the folder {place['folder']} of the metastore, which is another one now."
    if recorded.kind == "managed" and place | this_host().to_place() == place:
        folder = shlex.quote(str(place["folder"]))
        return (
            f"Set catalog.folder to {folder}, and catalog.warehouse to that of the other node; or"
            " give all nodes the same external catalog (catalog.kind)."
        )
    if recorded.kind == own.kind == "external":
        return "Give the profiles of all nodes the same addresses of catalogs."
    if recorded.kind == "managed":
        return "Give all nodes the same external catalog (catalog.kind)."
    return f"Set catalog.kind to {recorded.kind}, as on the other nodes."


def _describe(recorded: CatalogRecord, own: CatalogRecord) -> tuple[str, str]:
    """Return both descriptions, which differ even if the places of two metastores do not."""
    if recorded.description != own.description:
        return recorded.description, own.description
    return f"{recorded.description} ({recorded.id})", f"{own.description} ({own.id})"


def _external_keys(settings: Settings) -> dict[str, str]:
    """Return the addresses of the catalogs that the profiles name, by profile and setting."""
    keys = {}
    for name in {"default", *settings.profiles}:
        conf = settings.profile(name).conf
        addresses = [conf[key] for key in (*_METASTORE_KEYS, *_DATABASE_KEYS) if key in conf]
        keys[f"{name}: metastore"] = _normalize(addresses[0]) if addresses else ""
        for key, value in conf.items():
            named = _NAMED_CATALOG.fullmatch(key)
            if named is not None:
                is_place = named[1] == "warehouse"
                keys[f"{name}: {key}"] = places.identify(value) if is_place else _normalize(value)
    return keys


def _normalize(value: str) -> str:
    """Return one spelling of a list of addresses, without credentials."""
    return ",".join(sorted(_normalize_address(address.strip()) for address in value.split(",")))


def _normalize_address(address: str) -> str:
    # An address of JDBC has a scheme of two parts, and may have properties behind a semicolon.
    prefix = "jdbc:" if address.lower().startswith("jdbc:") else ""
    parts = urlsplit(address[len(prefix) :].partition(";")[0])
    host = parts.netloc.rpartition("@")[2].lower()
    return prefix + urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
