"""The sections of the settings: one class for each table of headrace.toml."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from headrace.config.auth import has_tls
from headrace.config.profiles import Section
from headrace.text.durations import Duration

DEFAULT_PORT = 8040


class HttpSettings(Section):
    """Where a node listens."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """Port to listen on; 0 picks a free port."""
    advertise: str | None = None
    """URL at which drivers and other nodes reach this node; default: host and port."""
    allowed_hosts: list[str] = Field(default=[])
    """Further hosts, `name` or `name:port`, under which clients reach this node, for example those
    of a reverse proxy. A node always serves loopback names, `advertise` and its own addresses."""
    allowed_origins: list[str] = Field(default=[])
    """Origins of web pages of other sites that may call this node, for example
    `https://app.example.com`. Such a page sends the token itself: the API reads no cookies."""
    auth: bool = True
    """Whether requests need the token of the node: `token`, otherwise the file `token` in the home,
    which the node creates."""
    max_connections: int = Field(default=4096, ge=8)
    """Largest number of connections. When it is reached, a new connection replaces the one that has
    been idle for the longest time; without an idle one, requests get 503."""
    header_timeout: Duration = timedelta(seconds=10)
    """Longest time that a client may take to send the headers of a request."""
    body_timeout: Duration = timedelta(seconds=60)
    """Longest time that a client may take to send the body of a request."""
    keep_alive: Duration = timedelta(seconds=15)
    """How long a connection stays open without a request. A time longer than `lease.renew` lets
    drivers renew their leases over one connection."""
    allow_unauthenticated: bool = False
    """Allow `auth = false` beyond loopback. Anyone who reaches the port can then run SQL."""


class TlsSettings(Section):
    """TLS of the node, and how its clients verify it. All files are in PEM."""

    cert: Path | None = None
    """Certificate of the node, followed by those of its intermediate CAs. With it, the node speaks
    HTTPS only. The node loads `cert`, `key`, `client_ca` and `ca` again when the files change."""
    key: Path | None = None
    """Private key of `cert`, without a password. Only the user of the node may read the file, and
    its group if the file belongs to root."""
    client_ca: Path | None = None
    """CAs of clients. With them, clients must present a certificate. Drivers present none, because
    users' code runs in them: their tokens open the driver link only."""
    ca: Path | None = None
    """CAs with which commands, drivers and other nodes verify the certificates of nodes. They take
    the place of the system's CAs, which are the default."""
    client_cert: Path | None = None
    """Certificate that commands, and nodes that call other nodes, present to a node with
    `client_ca`."""
    client_key: Path | None = None
    """Private key of `client_cert`, without a password, in a file as that of `key`."""
    terminated_by_proxy: bool = False
    """Allow a node without a certificate to listen beyond loopback: a proxy in front of the node
    has one, or no other host reaches the port. Drivers and other nodes may bypass the proxy."""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        """Raise ValueError for a certificate without a key, or the reverse."""
        for cert, key in (("cert", "key"), ("client_cert", "client_key")):
            if (getattr(self, cert) is None) != (getattr(self, key) is None):
                raise ValueError(f"{cert} and {key} belong together: set both, or neither")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key: only a node with TLS sees certificates")
        return self


class StoreSettings(Section):
    """The database that holds all state."""

    url: str | None = None
    """`sqlite:///path` or `postgresql://…`; default: `headrace.db` in the home."""
    pool_size: int = Field(default=10, ge=2)
    """Largest number of open connections."""
    connect_timeout: Duration = timedelta(seconds=5)
    """Longest time to wait for a connection. A write also waits at most so long for its turn and
    for the lock of the store together."""


class ResultsSettings(Section):
    """Where results are kept, and for how long."""

    location: str | None = None
    """Path or fsspec URI; default: `results/` in the home."""
    allowed: list[str] = Field(default=[])
    """Locations below which a statement may choose its own results location; default: none."""
    retention: Duration = timedelta(hours=24)
    """How long rows are kept after a statement ends."""
    inline_limit: int = Field(default=256 * 1024, ge=0)
    """Largest result, in bytes, that the disposition `auto` keeps in the store."""
    chunk_limit: int = Field(default=8 * 1024 * 1024, ge=64 * 1024)
    """Largest number of bytes of record batches in one chunk. A chunk has at least one row."""
    memory_limit: int = Field(default=256 * 1024 * 1024, ge=0)
    """Largest number of bytes of the `memory` results that one driver holds. A result that does not
    fit is `stored` instead; 0: every result."""
    flight_host: str = "127.0.0.1"
    """IP address of this node's host on which its drivers serve `memory` results by Arrow Flight,
    without TLS. Beyond loopback, Flight clients and nodes on other hosts read directly."""

    @field_validator("flight_host")
    @classmethod
    def _check_flight_host(cls, host: str) -> str:
        """Raise ValueError unless others can connect to the address."""
        try:
            address = ip_address(host)
        except ValueError:
            raise ValueError(f"{host!r} is not an IP address") from None
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        if address.is_unspecified or address.is_multicast or getattr(address, "scope_id", None):
            raise ValueError(f"{host} is not the address of one host; name the address of this one")
        # One spelling: loopback must be recognised.
        return str(address)


class HistorySettings(Section):
    """How long the history is kept."""

    retention: Duration | None = timedelta(days=30)
    """How long ended statements and sessions are kept, with their events and transactions; at least
    24h and `results.retention`; null: for ever."""


class AuditedReads(StrEnum):
    """Which reads of results the audit records."""

    ALL = "all"
    OTHERS = "others"  # of statements that do not belong to the caller itself
    NONE = "none"


class AuditSettings(Section):
    """Records of who did, read, or was refused what."""

    retention: Duration | None = timedelta(days=365)
    """How long records are kept; null: for ever."""
    reads: AuditedReads = AuditedReads.ALL
    """Which reads of results are recorded. An embedded node records none."""
    file: Path | None = None
    """File to which the node appends each of its records as a line of JSON, for a log collector."""


class LeaseSettings(Section):
    """Leases of drivers and nodes."""

    duration: Duration = timedelta(seconds=15)
    """How long a lease lasts after a renewal."""
    renew: Duration = timedelta(seconds=5)
    """How often a driver or node renews its lease."""
    sweep: Duration = timedelta(seconds=1)
    """How often a node checks leases, timeouts and pending launches."""
    orphan: Duration = timedelta(minutes=10)
    """How long a driver keeps running while no node renews its lease."""
    jvm_timeout: Duration = timedelta(seconds=60)
    """How long the JVM of a driver may be silent, for example in a garbage collection. A driver
    whose JVM is silent for longer counts as lost."""
    cancel_grace: Duration = timedelta(seconds=5)
    """How long a driver may take to stop a cancelled statement."""
    close_grace: Duration = timedelta(seconds=30)
    """How long the driver of a closed session may take to stop its work. Then it is killed."""


class ClusterSettings(Section):
    """Nodes that share one store."""

    backend_polls: float = Field(default=10.0, gt=0, le=10_000)
    """Largest number of questions about drivers that all nodes together send to one backend in a
    second, after a short burst."""
    shared_paths: tuple[Path, ...] = ()
    """Folders that all hosts mount under the same path. Nodes on several hosts may keep results,
    checkpoints and tables there."""
    drain_timeout: Duration = timedelta(seconds=30)
    """How long a node that drains may finish what it has begun. SIGTERM drains a node."""


SECRET_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"  # noqa: S105 - a pattern
"""Regular expression of the name of a secret."""
EVERY = "*"
"""Stands for every secret, or for every owner."""
_INHERITED_PREFIXES = ("HEADRACE_", "SPARK_", "PYSPARK_", "LC_")
"""Prefixes of variables that drivers inherit, or that are settings."""


class SecretSettings(Section):
    """Where the values of `${secret:NAME}` come from, and who may use them."""

    provider: Literal["files", "environment", "command"] | None = None
    """`files`: the file NAME in `folder`. `environment`: the variable of the node whose name is
    `environment_prefix` and NAME. `command`: what `command` writes to standard output. Default:
    there are no secrets."""
    folder: Path | None = None
    """Folder of the files. Only the user of the node and its group may read a file."""
    environment_prefix: str = "SECRET_"
    """Begin of the names of the variables. Drivers do not inherit them."""
    command: list[str] = Field(default=[])
    """Program and arguments; the name of the secret is added. The program has the environment of
    the node. Its standard error is discarded."""
    timeout: Duration = timedelta(seconds=10)
    """How long the provider may take for one secret."""
    allowed: dict[str, list[str]] = Field(default={})
    """For each secret, the users (`ada`) and groups (`group:corp:etl`) whose sessions may use it.
    `*` stands for every secret or every owner. A secret that is not listed can be used in
    profiles only."""

    @field_validator("environment_prefix")
    @classmethod
    def _check_prefix(cls, prefix: str) -> str:
        """Raise ValueError for a prefix of variables that drivers inherit."""
        if re.fullmatch(r"[A-Za-z_]\w*", prefix) is None:
            raise ValueError(f"{prefix!r} cannot begin the name of a variable")
        for inherited in _INHERITED_PREFIXES:
            if prefix.startswith(inherited) or inherited.startswith(prefix):
                raise ValueError(f"{prefix!r} also begins names of variables of other use")
        return prefix

    @field_validator("allowed")
    @classmethod
    def _check_allowed(cls, allowed: dict[str, list[str]]) -> dict[str, list[str]]:
        """Raise ValueError for a name that no secret can have."""
        for name in allowed:
            if name != EVERY and re.fullmatch(SECRET_NAME, name) is None:
                raise ValueError(
                    f"{name!r} cannot be the name of a secret; use letters, digits, _ and -"
                )
        return allowed

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        """Raise ValueError for a provider without its settings."""
        if self.provider == "files" and (self.folder is None or not self.folder.is_absolute()):
            raise ValueError("secrets.provider is files, which needs an absolute secrets.folder")
        if self.provider == "command" and not self.command:
            raise ValueError("secrets.provider is command, which needs secrets.command")
        return self

    def may_use(self, name: str, owners: frozenset[str]) -> bool:
        """Return whether one of these owners may use a secret."""
        listed = {*self.allowed.get(name, ()), *self.allowed.get(EVERY, ())}
        return bool(owners) and (EVERY in listed or not listed.isdisjoint(owners))


class RedactionSettings(Section):
    """What responses, events and logs do not show."""

    pattern: str | None = None
    """Regular expression of further names of options whose values are secrets, in the syntax that
    Python and Java share, for example `(?i)pin|cvv`. It is searched in the name."""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        """Raise ValueError unless the pattern is a regular expression that needs a character."""
        try:
            if pattern is not None and re.search(pattern, "") is not None:
                raise ValueError(f"{pattern!r} matches every name")
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return pattern


class SessionSettings(Section):
    """Defaults of sessions that do not set these values."""

    idle_timeout: Duration | None = timedelta(minutes=30)
    """Idle time after which a session is closed; null: never."""
    unnamed_idle_timeout: Duration = timedelta(minutes=1)
    """Idle time after which a session is closed that was created for one batch, job or stream."""
    parallelism: int = Field(default=8, ge=1, le=64)
    """Largest number of queries of a session that run at once. With 1, the statements of a session
    run one after another."""
    pool_parallelism: int = Field(default=8, ge=1, le=64)
    """Largest number of statements without a session that run at once in the driver of a user."""
    pool_idle_timeout: Duration = timedelta(minutes=5)
    """Idle time after which the driver of these statements ends."""
    connection_idle_timeout: Duration = timedelta(hours=8)
    """Time without a new statement after which a connection of a client is closed. It has no driver
    of its own, and its state is in the store."""
    ttl: Duration | None = None
    """Age at which a session is closed, busy or not; null: never."""


class StatementSettings(Section):
    """How statements run."""

    max_attempts: int = Field(default=2, ge=1)
    """Largest number of attempts of a statement that is safe to retry when its driver dies."""
    max_waiting: int = Field(default=10_000, ge=1)
    """Largest number of statements that may wait in one session. Another submit is refused with
    `queue_full`."""


class CatalogSettings(Section):
    """The persistent catalog that sessions share."""

    kind: Literal["managed", "external", "memory"] = "managed"
    """`managed`: a Hive metastore in the home; `external`: as the profile configures it;
    `memory`: tables end with their driver."""
    warehouse: str | None = None
    """Location of managed tables; default: `warehouse/` in the home."""
    folder: Path | None = None
    """`managed`: folder of the metastore; default: `metastore/` in the home. Nodes of one host that
    share a store name the same folder and the same warehouse."""
    replaces: str | None = None
    """Id of another catalog of the store, as the error `catalog_mismatch` prints it. The node
    replaces the record of that catalog by its own catalog; tables of the other one are not
    moved."""


class EmbeddedSettings(Section):
    """The node that `headrace sql` starts when there is no server."""

    linger: Duration = timedelta(minutes=5)
    """How long the node, its drivers and the metastore run after the last command."""
    warm: int = Field(default=1, ge=0)
    """Number of drivers to keep ready, until `linger` after the last session of a script or of a
    batch."""


class StreamSettings(Section):
    """Streaming queries."""

    checkpoints: str | None = None
    """Location of the write-ahead logs of queries without the option `checkpointLocation`, unless
    Spark's `spark.sql.streaming.checkpointLocation` is set; default: `checkpoints/` in the home."""
    location: str | None = None
    """Location of the rows that queries write to files without the option `path`; default:
    `streams/` in the home."""


class MaterializedViewSettings(Section):
    """Materialized views."""

    grace: Duration = timedelta(minutes=10)
    """How long the replaced rows of a view stay after a refresh, for the queries that read them."""


class JobSettings(Section):
    """Jobs."""

    state_location: str | None = None
    """Location of manifests, savepoints and checkpoints of jobs, unless a deployment names another
    one; default: `jobs/<owner>` in the home."""
    healthy_period: Duration = timedelta(minutes=1)
    """How long a query without batches must run for its deployment to succeed."""
    proof_timeout: Duration = timedelta(minutes=10)
    """How long a deployment waits for the first batch. Then the old version continues."""
    start_failures: int = Field(default=3, ge=1)
    """Number of successive failures after which a new version counts as failed."""
    plan_retention: Duration = timedelta(hours=24)
    """How long a plan can be applied."""
    savepoints_kept: int = Field(default=5, ge=1)
    """Number of savepoints that are kept for each job, whatever their age."""
    savepoint_retention: Duration = timedelta(days=7)
    """How long further savepoints are kept."""
    parallelism: int = Field(default=4, ge=1, le=64)
    """Number of operations that a node advances at once."""
    watched_locations: dict[str, list[str]] = Field(default={})
    """For each location, the users (`ada`) and groups (`group:corp:etl`) whose jobs may follow the
    files below it (`on-files`): nodes list them with their own rights. `*` stands for every owner,
    or every location. Default: none; a node that a command has started allows every location."""


class HiveServer2Settings(Section):
    """HiveServer2's Thrift protocol. Over HTTP, it is always served: `/cliservice`."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port for connections that carry Thrift without HTTP, at `http.host`; usual is 10000. Default:
    none. With `tls.cert`, the connections are encrypted."""


class LivySettings(Section):
    """Livy's REST API, `/livy`."""

    row_limit: int = Field(default=10_000, ge=1)
    """Largest number of rows in the output of a statement. A larger result is an error, never
    truncated."""


class FlightSqlSettings(Section):
    """Arrow Flight SQL."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port of Flight SQL, at `http.host`; usual is 32010. Default: none. With `tls.cert`, the
    connections are encrypted."""
    token_lifetime: Duration = Field(default=timedelta(hours=8), ge=timedelta(minutes=1))
    """Time without a call after which a client that has signed in with a password, or with a token
    of an issuer, must sign in again."""


class WebSettings(Section):
    """The pages for people, at `/ui`."""

    sign_in_lifetime: Duration = Field(default=timedelta(hours=12), ge=timedelta(minutes=1))
    """Time after which a browser must sign in again. A sign-in with a token also ends with the
    token. The time is also the longest for which a user who was removed from a directory, or from
    a group there, stays signed in: `headrace user disable` ends it at once."""
    drafts_per_user: int = Field(default=100, ge=1, le=1000)
    """Largest number of drafts that the editor keeps for a user. A new one deletes the one that was
    not changed for the longest. Drafts are also deleted with the history (`history.retention`)."""
    public_address: str | None = None
    """URL at which browsers reach the nodes, with the path of a proxy but without `/ui`, for
    example `https://tools.example.com/headrace`. Issuers of OpenID Connect send browsers back
    there. The nodes serve its host as if `http.allowed_hosts` named it."""

    @field_validator("public_address")
    @classmethod
    def _check_public_address(cls, url: str | None) -> str | None:
        """Return the address without a slash at its end. Raise ValueError if it is none."""
        if url is None:
            return None
        url = url.rstrip("/")
        parts = urlsplit(url)
        is_plain = re.fullmatch(
            r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?(/[A-Za-z0-9._~-]+)*", url
        )
        is_outside = not {".", ".."}.isdisjoint(parts.path.split("/"))
        if is_plain is None or parts.port == 0 or is_outside or not has_tls(url):
            raise ValueError(
                f"{url!r} is not the address of the pages; it begins with https:// and has no query"
            )
        if parts.path.endswith("/ui"):
            raise ValueError("leave out /ui: the address is that of the nodes, without the pages")
        return url


class OpenSearchSettings(Section):
    """The OpenSearch async query API, `/_plugins/_async_query`."""

    row_limit: int = Field(default=10_000, ge=1)
    """Largest number of rows in one response. A larger result is an error, never truncated."""
    datasources: dict[str, str] = Field(default={})
    """Catalog for each `datasource`. If empty, the name of a catalog of the profile stands for that
    catalog, and any other name for the default catalog of the session."""
