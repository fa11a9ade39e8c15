"""A node: its services and background work, its start and its end."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from headrace import __version__
from headrace.config.node_file import NodeFile
from headrace.config.profiles import Profile
from headrace.config.settings import Settings
from headrace.control.catalog_claim import claim_catalog, identify_catalog
from headrace.control.catalog_listing import CatalogListing
from headrace.control.conf import check_profiles
from headrace.control.context import NodeContext
from headrace.control.driver_link.service import DriverLinkService
from headrace.control.editor_drafts import EditorDrafts
from headrace.control.event_log import EventLog
from headrace.control.expiry import Expiry
from headrace.control.history import HistoryPurge, HistoryRetention
from headrace.control.host.home_ownership import IdleShutdown, load_or_create_token
from headrace.control.host.process_identity import this_host
from headrace.control.identity.accounts import Accounts
from headrace.control.identity.api_tokens import ApiTokens
from headrace.control.identity.authenticator import Authenticator
from headrace.control.jobs import change_steps, job_changer, planning
from headrace.control.jobs.conditions import Conditions
from headrace.control.jobs.file_watches import FileWatches
from headrace.control.jobs.firing import Schedules
from headrace.control.jobs.operation_runner import OperationRunner
from headrace.control.jobs.planning import PlanExpiry
from headrace.control.jobs.service import Jobs
from headrace.control.launchers.base import Launcher
from headrace.control.launchers.registry import LauncherRegistry, build_launchers
from headrace.control.limits import FreePlaces, Quotas
from headrace.control.lineage import LineageGraphs
from headrace.control.long_polls import AwaitedEnds, LongPolls, WakeUps
from headrace.control.metrics import (
    ExpectationMetrics,
    NodeMetrics,
    OutboxMetrics,
    RunMetrics,
    StatementMetrics,
    StoreMetrics,
    make_request_durations,
)
from headrace.control.node_lease import ExpiredNodes, NodeLease
from headrace.control.nodes import Drain, Nodes
from headrace.control.outbox.openlineage import OpenLineageStreamEvents
from headrace.control.outbox.sender import Outbox
from headrace.control.outbox.service import Webhooks
from headrace.control.outbox.watch import AlertWatch
from headrace.control.periodic_tasks import PeriodicTask, PeriodicTasks
from headrace.control.places import check_locations, check_placement
from headrace.control.policy import Action, Caller, Shared, require
from headrace.control.retention import Retention
from headrace.control.runs.service import JobRuns
from headrace.control.runs.steps import RunSteps
from headrace.control.sessions.connections import ClientConnections
from headrace.control.sessions.early_launch import EarlyLaunch, LocalParts
from headrace.control.sessions.ending import Closings
from headrace.control.sessions.launch import Launches
from headrace.control.sessions.service import Sessions
from headrace.control.sessions.session_logs import SessionLogs
from headrace.control.sessions.start_checks import StartChecks
from headrace.control.sessions.takeover import DriverEnds, Takeovers
from headrace.control.sessions.warm_pool import WarmPool
from headrace.control.statements.async_statements import AsyncStatements
from headrace.control.statements.batches import Batches
from headrace.control.statements.cancel import ForcedCancels
from headrace.control.statements.cursors import Cursors
from headrace.control.statements.held_results import HeldResultReader
from headrace.control.statements.node_statements import NodeStatements
from headrace.control.statements.service import Statements
from headrace.control.streams.service import Streams
from headrace.control.transactions import Transactions
from headrace.control.views.status import MaterializedViews
from headrace.errors import InvalidSetting, NodeNotReady, StoreUnavailable
from headrace.files.private_files import write_private
from headrace.grammar.masking import set_further_keys
from headrace.model.ids import new_id
from headrace.model.lifecycle import NodeState
from headrace.model.messages import LINK_VERSION
from headrace.model.run import RUN_KIND
from headrace.store import nodes
from headrace.store.clock import read_clock
from headrace.store.database import Database, Tx

_LOG = logging.getLogger("headrace.node")
_HISTORY_SECONDS = 60.0
_ALERT_SECONDS = 30.0
_FILES_SECONDS = 1.0
_EXPIRED_NODES_SECONDS = 60.0


class Node:
    """One server process, which serves all sessions and statements of its store."""

    def __init__(
        self,
        settings: Settings,
        *,
        address: str,
        embedded: bool,
        launchers: Sequence[Launcher] = (),
        parts: LocalParts | None = None,
    ) -> None:
        """Open and migrate the store.

        Args:
            parts: What the node needs to start drivers on its host; default: new parts.
            launchers: Launchers of the backends; default: the launchers that the settings need.

        Raises:
            StoreInUse: If another node has the SQLite store open.
            StoreUnavailable: If the store does not answer.
            SchemaTooNew: If a newer version has migrated the store.
            InvalidSetting: If a profile has an invalid option, the home cannot be created, a
                location contains a password, or a backend lacks a library or a setting.
        """
        _prepare(settings)
        if embedded:
            settings = settings.for_embedded()
        self.embedded = embedded
        self.ends_drivers = embedded
        """Whether drivers and metastore end with the node, or wait for the next one."""
        self.token = _load_token(settings, embedded=embedded)
        self.database = Database.open(
            settings.store_url,
            pool_size=settings.store.pool_size,
            connect_timeout=settings.store.connect_timeout.total_seconds(),
        )
        self.database.migrate()
        self.context = NodeContext(
            self.database, settings, _load_node_id(settings.layout.node_id_file), address
        )
        self.authenticator = Authenticator(self.context, node_token=self.token)
        self._metrics = CollectorRegistry()
        StoreMetrics(self.database, self._metrics)
        self.request_durations = make_request_durations(self._metrics)
        statement_metrics, expectation_metrics = (
            StatementMetrics(self._metrics),
            ExpectationMetrics(self._metrics),
        )
        _observe(self.database, settings, statement_metrics)
        self._awaited_ends = AwaitedEnds()
        self.wake_ups = WakeUps(self.database)
        self.long_polls = LongPolls(hears_wake_ups=self.hears_wake_ups)
        """Requests that wait. The servers of the process release them when they stop."""
        self.driver_link = DriverLinkService(
            self.context,
            awaited_ends=self._awaited_ends,
            observe_start=statement_metrics.observe_driver_start,
            observe_batch=expectation_metrics.observe_batch,
            observe_refresh=expectation_metrics.observe_refresh,
        )
        self.statements = Statements(
            self.context,
            NodeStatements(self.context),
            HeldResultReader(self.context, token=self.token),
            self.driver_link.waiting_polls.claim,
            self.long_polls,
        )
        self.async_statements = AsyncStatements(
            self.database,
            self.statements,
            wake_ups=self.wake_ups,
            awaited_ends=self._awaited_ends,
            long_polls=self.long_polls,
        )
        self.catalog_listing = CatalogListing(self.statements, self.async_statements)
        self.sessions = Sessions(self.context)
        self.connections = ClientConnections(self.context)
        self.cursors = Cursors(self.context)
        self.session_logs = SessionLogs(self.context, token=self.token)
        self.nodes = Nodes(self.context)
        self.transactions = Transactions(self.context)
        self.streams = Streams(self.context)
        planner = planning.JobPlanner(self.context)
        self.jobs = Jobs(self.context, planner)
        self._operations = OperationRunner(
            self.context,
            {
                planning.KIND: planner.advance,
                job_changer.KIND: job_changer.JobChanger(self.context).advance,
                change_steps.KIND: change_steps.Pruner(self.context).advance,
                RUN_KIND: RunSteps(
                    self.context,
                    self.statements,
                    expectation_metrics.observe,
                    RunMetrics(self._metrics).observe_begin,
                ).advance,
            },
        )
        self.events = EventLog(self.context)
        self._retention, self._outbox, self._file_watches = (
            Retention(self.context),
            Outbox(self.context, OutboxMetrics(self._metrics).observe_attempt),
            FileWatches(self.context),
        )
        self._parts = parts = parts or LocalParts.create(settings, embedded=embedded)
        self._launchers = LauncherRegistry(
            launchers or build_launchers(settings, parts.host, parts.launcher),
            self._metrics,
        )
        self._profiles = _launchable_profiles(settings, self._launchers.backends)
        self._takeovers = Takeovers(
            self.context, self._launchers, observe_loss=statement_metrics.observe_lost_driver
        )
        self._start_checks = StartChecks(self.context, self._launchers, self._takeovers)
        self._catalog = identify_catalog(settings, parts.metastore)
        self._launches = Launches(
            self.context,
            launchers=self._launchers,
            takeovers=self._takeovers,
            metastore=parts.metastore,
            profiles=self._profiles,
            is_draining=lambda: self._drain.has_begun,
            observe_failed_start=statement_metrics.observe_failed_start,
        )
        self._idle_shutdown = IdleShutdown(
            settings.layout, settings.embedded.linger.total_seconds()
        )
        self._warm_pool = WarmPool(self.context, embedded=embedded)
        self._drain = Drain(
            self.context,
            hand_over=self._operations.stop,
            is_busy=lambda: self._launches.has_work or self._takeovers.has_work,
            leave=self._leave,
        )
        self._lease = NodeLease(
            self.context,
            register=self._register,
            on_draining=self._drain.begin,
            on_refused=self._leave,
            observe_late_renewal=NodeMetrics(
                self._metrics, settings.layout.path
            ).observe_late_renewal,
        )
        self._tasks = self._make_tasks()
        self._request_stop: Callable[[], None] = lambda: None

    @property
    def settings(self) -> Settings:
        """The settings of the node."""
        return self.context.settings

    @property
    def id(self) -> str:
        """Id of the node, stable across restarts."""
        return self.context.node_id

    def read_clock(self) -> datetime:
        """Return the time of the store, which decides every expiry."""
        with self.database.read() as tx:
            return read_clock(tx.connection)

    @property
    def tokens(self) -> ApiTokens:
        """Service for tokens."""
        return ApiTokens(self.context, self.authenticator)

    @property
    def views(self) -> MaterializedViews:
        """Service for materialized views."""
        return MaterializedViews(self.context)

    @property
    def job_runs(self) -> JobRuns:
        """Service for runs of batch jobs."""
        return JobRuns(self.context, self.statements)

    @property
    def webhooks(self) -> Webhooks:
        """Service for webhooks."""
        return Webhooks(self.context)

    @property
    def lineage(self) -> LineageGraphs:
        """Service for lineage."""
        return LineageGraphs(self.context)

    @property
    def batches(self) -> Batches:
        """Service for batches."""
        return Batches(self.context)

    @property
    def accounts(self) -> Accounts:
        """Service for users."""
        return Accounts(self.context, self.authenticator)

    @property
    def quotas(self) -> Quotas:
        """Service that shows the limits of owners."""
        return Quotas(self.context)

    @property
    def drafts(self) -> EditorDrafts:
        """Service for drafts of editors."""
        return EditorDrafts(self.context)

    @property
    def history(self) -> HistoryPurge:
        """Service that deletes old history."""
        return HistoryPurge(self.context, self._retention)

    def start(self, *, request_stop: Callable[[], None], early: EarlyLaunch | None = None) -> None:
        """Register the node and start its background work.

        Raises:
            StoreUnavailable: The store does not answer.
            UnsharedLocation: Nodes on other hosts cannot reach the files of this node.
            CatalogMismatch: The nodes of the store use another catalog.

        Args:
            request_stop: Asks the server to stop; an embedded node calls it when it is unused.
            early: Launch of a driver that has started before the store was open.
        """
        self._request_stop = request_stop
        with self.database.write("node.register") as tx:
            self._register(tx)
        if early is not None:
            # Before the background work, which would forget the end of a driver without a session.
            self._launches.adopt_early(early, owner=self.authenticator.local_caller.owner)
        self.database.listen()
        self._launchers.announce([self.context.address])
        self._lease.start()
        self._tasks.start()
        self._retention.start()
        self._operations.start()
        if (missing := self.settings.missing_isolation) is not None:
            _LOG.warning('%s Set run_as = "owner" in the profiles to isolate them.', missing)
        _LOG.info("node %s serves %s from %s", self.id, self.context.address, self.database.dialect)

    def metrics(self, caller: Caller) -> CollectorRegistry:
        """Return the metrics of the node and of the store. Raise NotPermitted."""
        require(caller, Action.READ, Shared.METRICS)
        return self._metrics

    def announce(self) -> None:
        """Write the node file, with which the commands of the home find the node."""
        self._describe().write(self.settings.layout)

    def drain(self) -> bool:
        """Begin to leave. Return False if the node has begun before, or hands nothing over."""
        if self.embedded or self._drain.has_begun:
            return False
        self._drain.begin()
        return True

    def withdraw(self) -> None:
        """Remove the node file before the node stops to listen, so that no command uses it."""
        self.settings.layout.node_file.unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the background work, and end drivers and metastore if `ends_drivers` is set."""
        self.withdraw()
        self._tasks.stop()
        self._operations.stop()
        self._retention.stop()
        self._outbox.stop()
        self._file_watches.stop()
        self._lease.stop()
        self._launches.stop()
        self._parts.archives.stop()
        try:
            if self.ends_drivers:
                DriverEnds(self.context, self._takeovers).end_own()
            self.context.audit.flush()
            with self.database.write("node.stop") as tx:
                nodes.transition(tx, self.id, NodeState.GONE, actor=self.id)
        except StoreUnavailable as error:
            _LOG.error("the node stops while the store does not answer: %s", error.message)
        self._start_checks.stop()
        self._takeovers.stop()
        if (metastore := self._parts.metastore) is not None:
            metastore.stop() if self.ends_drivers else metastore.release()
        self.database.close()

    def hears_wake_ups(self) -> bool:
        """Return whether the wake-ups of other nodes arrive at present."""
        return self.database.hears_wake_ups(self.context.lease_seconds)

    def check_ready(self) -> None:
        """Raise StoreUnavailable or NodeNotReady if the node cannot serve at the moment."""
        if self._drain.has_begun:
            raise NodeNotReady("The node drains: it serves what it has begun, and leaves.")
        self.database.ping()
        self.database.check_writable()
        self._tasks.check_recent()

    def _register(self, tx: Tx) -> None:
        """Register the node. Raises UnsharedLocation and CatalogMismatch."""
        nodes.lock_registrations(tx)
        check_placement(tx, self.settings, node_id=self.id)
        claim_catalog(tx, self.settings, self._catalog, node_id=self.id)
        nodes.register(
            tx,
            self.id,
            address=self.context.address,
            version=__version__,
            seconds=self.context.lease_seconds,
            profiles=sorted(self._profiles),
            backends=self._launchers.backends,
            host=this_host().to_record(),
            link_version=LINK_VERSION,
        )

    def _make_tasks(self) -> PeriodicTasks:
        tasks = [
            PeriodicTask("takeovers", self._takeovers.run),
            PeriodicTask("start checks", self._start_checks.run),
            PeriodicTask("closings", Closings(self.context).run),
            PeriodicTask("expiry", Expiry(self.context).run),
            PeriodicTask("forced cancels", ForcedCancels(self.context, self._takeovers).run),
            PeriodicTask("warm pool", self._warm_pool.run),
            PeriodicTask("free places", FreePlaces(self.context).run),
            PeriodicTask("launches", self._launches.start_pending),
            PeriodicTask("schedules", Schedules(self.context).run),
            PeriodicTask("conditions", Conditions(self.context).run),
            PeriodicTask("files", self._file_watches.run, _FILES_SECONDS),
            PeriodicTask("outbox", self._outbox.run),
            PeriodicTask("alerts", AlertWatch(self.context).run, _ALERT_SECONDS),
            PeriodicTask("audit", self.context.audit.flush),
            PeriodicTask("history", HistoryRetention(self.context).run, _HISTORY_SECONDS),
            PeriodicTask("expired nodes", ExpiredNodes(self.context).run, _EXPIRED_NODES_SECONDS),
            PeriodicTask("plan expiry", PlanExpiry(self.context).run, _HISTORY_SECONDS),
            PeriodicTask("idle shutdown", self._stop_if_unused),
        ]
        is_first = True

        def on_return() -> None:
            nonlocal is_first
            with self.database.write("node.return") as tx:
                nodes.mark_return(tx, self.id, self.context.lease_seconds)
            if is_first:
                self._launches.adopt_unconfirmed()
                is_first = False

        return PeriodicTasks(self.context, tasks, on_return=on_return)

    def _describe(self) -> NodeFile:
        return NodeFile(
            address=self.context.address,
            token=self.token if self.embedded else None,
            token_in_home=self.token is not None and not self.embedded and not self.settings.token,
            pid=os.getpid(),
            node_id=self.id,
            version=__version__,
            embedded=self.embedded,
            ca=None if self.settings.tls.ca is None else str(self.settings.tls.ca.absolute()),
        )

    def _leave(self) -> None:
        self._request_stop()

    def _stop_if_unused(self) -> None:
        if self.embedded and self._idle_shutdown.is_due(self.database):
            _LOG.info("no command uses this node any more: it stops")
            self._request_stop()


def _observe(database: Database, settings: Settings, metrics: StatementMetrics) -> None:
    """Set what the store calls at the end of statements and at the steps of streaming queries."""
    database.observe_ends = metrics.observe_ends
    database.observe_stream_run = OpenLineageStreamEvents(settings.openlineage).record


def _load_token(settings: Settings, *, embedded: bool) -> str | None:
    """Return the token that requests need, or None if the node needs no token.

    An embedded node has a token of its own: the configured one may be that of another server.
    """
    if embedded:
        return secrets.token_urlsafe(32)
    if not settings.http.auth:
        return None
    return settings.token or load_or_create_token(settings.layout.token_file)


def _prepare(settings: Settings) -> None:
    """Check the settings, and create the home. Raise InvalidSetting."""
    set_further_keys(settings.redaction.pattern)
    check_profiles(settings)
    check_locations(settings)
    _create_home(settings)


def _create_home(settings: Settings) -> None:
    """Create the home, readable by its owner only. Raises InvalidSetting."""
    try:
        settings.layout.create()
    except OSError as error:
        raise InvalidSetting(
            f"The home {settings.layout.path} cannot be used: {error.strerror}.",
            hint="Choose another home with --home or HEADRACE_HOME.",
        ) from error


def _load_node_id(file: Path) -> str:
    if not file.exists():
        write_private(file, new_id("no"))
    return file.read_text().strip()


def _launchable_profiles(settings: Settings, backends: Sequence[str]) -> dict[str, Profile]:
    """Return the profiles for whose backend the node has a launcher."""
    profiles = {name: settings.profile(name) for name in {"default", *settings.profiles}}
    return {name: profile for name, profile in profiles.items() if profile.backend in backends}
