"""The request to launch the driver of a session: its bootstrap and its Spark configuration.

This module needs no store: an embedded node launches its first driver before it opens the store.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.client.tls import read_authorities
from headrace.config.profiles import Profile
from headrace.config.settings import Settings
from headrace.control.conf import artifact_conf, list_conf_rules
from headrace.control.host.metastore import Metastore
from headrace.control.launchers.base import LaunchRequest, launch_name
from headrace.control.secret_values import Secrets
from headrace.files.places import local_path
from headrace.grammar.masking import HIDDEN_KEYS
from headrace.grammar.secret_references import has_reference, list_in_conf, replace_in_value
from headrace.model.messages import Bootstrap
from headrace.model.session import DriverLease, FlightAccess, NewSession, Session, SessionSpec

_ICEBERG_CATALOGS = {
    "org.apache.iceberg.spark.SparkCatalog",
    "org.apache.iceberg.spark.SparkSessionCatalog",
}
_PRIVATE_FILES = {"spark.hadoop.fs.permissions.umask-mode": "077"}
"""Hadoop's file systems ignore the umask of the process."""
_HIDDEN_FROM_USERS = {"spark.authenticate": "true", "spark.ui.enabled": "false"}
"""Every user of the host can connect to Spark's ports, also to the UI, which shows statements."""


_REDACTION = "spark.redaction.regex"
_NAMED_IN_PLAN = (
    r"(?i)(?<=(?:secret|passw(?:or)?d|passphrase|token|(?:access|account|api|private)[._-]?key)"
    r"[\w.-]{0,40}[\"'`]?\s{0,2}(?:=>|=|,)\s{0,2}[\"']?)[^\s,;)}\]&\"'`]+"
    # Java tries every length of a lookbehind at every place: the first one rules most places out.
    r"|(?<=:)(?<=//[^/:@\s]{0,64}:)[^/@\s]+(?=@)"
)
"""What Spark hides in EXPLAIN, in its UI and in its event log, in Java's syntax: a value that
follows the name of a secret, and the password in a URL."""


def hash_token(token: str) -> str:
    """Return the SHA-256 of a driver's token in hex. The store does not keep the token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class DriverSecrets:
    """The secrets of one launch."""

    token: str = field(repr=False)
    """Token of the driver's calls to the nodes."""
    flight: FlightAccess | None
    """How the driver serves held results; None: it holds none."""

    @classmethod
    def create(cls, settings: Settings, profile: Profile) -> DriverSecrets:
        """Return new secrets for a launch with a profile."""
        flight = None
        if not profile.is_remote:
            # A driver on another host could name a service that only this host may reach.
            flight = FlightAccess(settings.results.flight_host, secrets.token_urlsafe(32))
        return cls(secrets.token_urlsafe(32), flight)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingOwner:
    """The owner as whom a driver runs, and where it keeps files."""

    run_as: str
    """Name under which the system knows the owner."""
    is_local: bool
    """Whether the driver is a process of another user of this host."""
    results: str
    """Where the driver writes stored results."""
    warehouse: str
    """Where managed tables are, unless the session says something else."""
    folders: tuple[Path, ...]
    """Folders on this host in which only the drivers of this owner keep files."""


def build_launch_request(
    settings: Settings,
    metastore: Metastore | None,
    *,
    session: Session | NewSession,
    epoch: int,
    driver_secrets: DriverSecrets,
    profile: Profile,
    addresses: Sequence[str],
    secret_values: Secrets,
    owners: frozenset[str],
    acting: ActingOwner | None = None,
) -> LaunchRequest:
    """Return the request, after the start of the metastore.

    Args:
        acting: The owner as whom the driver runs; None: it runs as the node.
        addresses: Addresses of the nodes, in the order in which the driver calls them.
        secret_values: Finds the values to which the configuration refers.
        owners: The owner of the session and its groups, which must be allowed to use the secrets
            of the session. Those of the profile are the operator's.

    Raises JavaMissing, OSError if the supervisor of the metastore cannot be started, InvalidSetting
    if the CAs of the nodes cannot be read, and the errors of `Secrets.find`.
    """
    lease = DriverLease(session.id, epoch)
    name = launch_name(lease)
    catalog_conf = metastore.ensure(when_wanted=True) if metastore else {}
    flight = driver_secrets.flight
    conf = _driver_conf(session, name, settings, catalog_conf, profile, acting)
    values = secret_values.find(list_operator_secrets(settings, profile), None)
    values |= secret_values.find(list_own_secrets(session.spec), owners)
    secret_values.remember(session.id, values)
    bootstrap = Bootstrap(
        session_id=session.id,
        epoch=epoch,
        token=driver_secrets.token,
        nodes=list(dict.fromkeys(addresses)),
        ca=None if settings.tls.ca is None else read_authorities("tls.ca", settings.tls.ca),
        conf={key: replace_in_value(value, values) for key, value in conf.items()},
        secrets=values,
        redaction_pattern=settings.redaction.pattern,
        catalog=session.spec.catalog,
        database=session.spec.database,
        warm=session.warm,
        results=settings.results_location if acting is None else acting.results,
        inline_limit=settings.results.inline_limit,
        chunk_limit=settings.results.chunk_limit,
        lease_seconds=settings.lease.duration.total_seconds(),
        renew_seconds=settings.lease.renew.total_seconds(),
        close_grace_seconds=settings.lease.close_grace.total_seconds(),
        orphan_seconds=settings.lease.orphan.total_seconds(),
        jvm_timeout_seconds=settings.lease.jvm_timeout.total_seconds(),
        flight_host=None if flight is None else flight.host,
        flight_secret=None if flight is None else flight.secret,
        memory_limit=settings.results.memory_limit,
        hold=str(metastore.users_lock) if metastore else None,
        wanted=str(metastore.wanted_file) if metastore else None,
        conf_rules=list_conf_rules(settings.conf_policy),
    )
    log = settings.layout.session_log(session.id)
    return LaunchRequest(
        name=name,
        bootstrap=bootstrap,
        profile=profile,
        log=log,
        run_as=None if acting is None else acting.run_as,
        folders=() if acting is None else acting.folders,
    )


def list_operator_secrets(settings: Settings, profile: Profile) -> list[str]:
    """Return the names of the secrets to which the operator refers for the drivers of a profile."""
    return list_in_conf({**profile.conf, **settings.conf_policy.force})


def list_own_secrets(spec: SessionSpec) -> list[str]:
    """Return the names of the secrets to which the configuration of a session refers."""
    return list_in_conf({**artifact_conf(spec), **spec.conf})


def _fair_scheduling(session: Session | NewSession) -> dict[str, str]:
    """Return the mode in which statements that run at once share the task slots."""
    # A warm driver may become that of a session that runs queries at once.
    runs_alone = session.parallelism == 1 and not session.warm
    return {} if runs_alone else {"spark.scheduler.mode": "FAIR"}


def _driver_conf(
    session: Session | NewSession,
    name: str,
    settings: Settings,
    catalog_conf: dict[str, str],
    profile: Profile,
    acting: ActingOwner | None,
) -> dict[str, str]:
    """Return the Spark configuration of a driver, in which later sources override earlier ones.

    The order is: defaults, catalog, profile, session, the values that the operator forces, and last
    the identity of the driver.
    """
    spec = session.spec
    conf = {
        "spark.master": profile.master,
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": settings.warehouse if acting is None else acting.warehouse,
        **(_PRIVATE_FILES if local_path(settings.warehouse) is not None else {}),
        "spark.sql.scripting.enabled": "true",
        "spark.redaction.string.regex": _NAMED_IN_PLAN,
        # Other sessions change tables, and Spark's cache of their files would not notice that.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        # A metastore cannot filter by a column whose name is no identifier, and fails otherwise.
        "spark.sql.hive.metastorePartitionPruningFallbackOnException": "true",
        **_fair_scheduling(session),
        **(_HIDDEN_FROM_USERS if acting is not None and acting.is_local else {}),
        **catalog_conf,
        **profile.rpc_conf,
        **profile.conf,
        **artifact_conf(spec),
        **spec.conf,
        **settings.conf_policy.force,
        "spark.app.name": name,
        "spark.headrace.session.id": session.id,
    }
    # For the same reason, Iceberg's catalogs cache no tables, unless the configuration says so.
    uncached = {
        f"{key}.cache-enabled": "false" for key, value in conf.items() if value in _ICEBERG_CATALOGS
    }
    return uncached | conf | _redaction_conf(conf, settings.redaction.pattern)


def _redaction_conf(conf: dict[str, str], pattern: str | None) -> dict[str, str]:
    """Return what makes Spark hide the secrets that the settings name, and all values of secrets.

    Spark's UI, SET and EXPLAIN hide the values of the keys that spark.redaction.regex matches.
    """
    named = [f"^{re.escape(key)}$" for key, value in conf.items() if has_reference(value)]
    patterns = dict.fromkeys([HIDDEN_KEYS, conf.get(_REDACTION), pattern, *named])
    return {_REDACTION: "|".join(f"(?:{each})" for each in patterns if each)}
