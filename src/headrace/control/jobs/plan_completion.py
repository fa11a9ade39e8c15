"""The decision for each job of a plan, when drivers have checked it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headrace.deploy.compatibility import (
    Compatibility,
    SinkSummary,
    judge,
    list_ineffective_keys,
)
from headrace.deploy.decision import JobFacts, decide
from headrace.deploy.flink import explain_flink_ddl
from headrace.deploy.query_places import find_query_place
from headrace.errors import InvalidExpectation, Position, UpgradeUnfinished
from headrace.grammar.clauses import Options, override_options
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, SaveStream
from headrace.model.deployment import (
    JobQuery,
    JobVersion,
    ManifestError,
    PlannedFacts,
    PlannedJob,
    Savepoint,
    TextPlaces,
    VersionSpec,
)
from headrace.model.failure import Failure
from headrace.model.job import JobDecision, OnQueryChange
from headrace.model.job_messages import CheckedJob, CheckedJobs, JobProblem
from headrace.model.stream_providers import find_sink

_CLEAN = {JobDecision.START_CLEAN, JobDecision.RESTART_CLEAN}


@dataclass(slots=True)
class Checks:
    """What drivers have found out about the jobs of a plan."""

    by_job: dict[str, CheckedJob] = field(default_factory=dict)
    savepoints: dict[str, Savepoint] = field(default_factory=dict)
    """Savepoints by place."""
    session_failures: list[Failure] = field(default_factory=list)
    errors: list[ManifestError] = field(default_factory=list)
    """Errors that concern no single job."""

    def add(self, checked: CheckedJobs) -> None:
        """Add the outcome of a task."""
        self.by_job |= {job.name: job for job in checked.jobs}
        if checked.location_problem is not None and not self.errors:
            self.errors.append(
                ManifestError(
                    path="",
                    code="state_location_unusable",
                    message=f"The state location cannot be written: {checked.location_problem}",
                    hint="Choose another one with --state-location, or grant access to it.",
                )
            )


def decide_job(
    planned: PlannedJob, current: JobVersion | None, checks: Checks
) -> tuple[PlannedJob, list[ManifestError]]:
    """Return a job with its decision, and its errors.

    Args:
        current: The deployed version; None: the job is new.
    """
    facts, spec = planned.facts, planned.spec
    if facts is None or spec is None:
        return planned, []
    checked = checks.by_job.get(planned.name)
    if checked is None:
        return planned, [_session_error(planned, checks)]
    errors = [_convert(planned, problem) for problem in checked.problems]
    if not checked.checks_rows and _has_expectations(spec):
        errors.append(_version_error(planned))
    spec = spec.model_copy(update={"summaries": checked.summaries})
    found = _find_state(checked)
    decided = decide(
        JobFacts(
            name=planned.name,
            is_new=facts.is_new,
            is_running=facts.is_running,
            configuration_changed=facts.configuration_changed,
            query_changed=facts.query_changed,
            found_state=found,
            on_query_change=facts.on_query_change,
            compatibility=_judge(planned, current, spec),
            changed_keys=planned.changed,
        )
    )
    complete = planned.model_copy(
        update={
            "decision": decided.decision,
            "reason": decided.reason,
            "hint": decided.hint or "",
            "notes": [
                *planned.notes,
                *checked.notes,
                *_note_ineffective_keys(planned.name, decided.decision, current, spec),
            ],
            "spec": spec,
            "version": _choose_number(decided.decision, current, spec),
            "query_places": [],
            "setup_places": [],
            "expect_place": None,
        }
    )
    if decided.decision is JobDecision.ERROR:
        error = ManifestError(
            path=planned.path,
            code=_error_code(facts),
            message=f"{planned.name}: {decided.reason}",
            hint=decided.hint or "",
            job=planned.name,
        )
        return complete, [*errors, error]
    if decided.decision in _CLEAN and checked.used_logs:
        errors.append(_log_error(planned, checked.used_logs))
    return _with_state(complete, checked, checks), errors


def _convert(planned: PlannedJob, problem: JobProblem) -> ManifestError:
    """Return the error of a manifest or definition, with its place in the file if it has one."""
    count = min(len(planned.setup_places), len(_list_setup(planned)))
    if problem.setup is not None and problem.setup < count:
        return _convert_setup(planned, problem, planned.setup_places[problem.setup])
    path, place = planned.path, _find_place(planned, problem)
    if problem.code == InvalidExpectation.code and planned.expect_place is not None:
        path, place = planned.expect_place.path, _find_start(planned.expect_place)
    return ManifestError(
        path=path,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
        code=problem.code,
        message=f"{planned.name}: {problem.message}",
        job=planned.name,
    )


def _convert_setup(planned: PlannedJob, problem: JobProblem, places: TextPlaces) -> ManifestError:
    """Return the error of a statement that the job needs before its query."""
    text = _list_setup(planned)[problem.setup or 0]
    # The position comes from a driver.
    is_within = problem.line is not None and 0 < problem.line <= text.count("\n") + 1
    line, column = (problem.line, problem.column) if is_within else (1, 1)
    place = find_query_place(places.parts, text, Position(line or 1, column or 1))
    is_own = places.path == planned.path
    return ManifestError(
        path=places.path,
        line=None if place is None else place.line,
        column=None if place is None else place.column,
        code=problem.code,
        message=f"{planned.name}: {problem.message}" if is_own else problem.message,
        hint=explain_flink_ddl(text) or "",
        job=planned.name if is_own else "",
    )


def _list_setup(planned: PlannedJob) -> list[str]:
    assert planned.spec is not None
    rows = planned.spec.queries[0].spec.rows
    return [] if rows is None else rows.setup


def _find_place(planned: PlannedJob, problem: JobProblem) -> Position | None:
    """Return the place in the file of a problem of `sql` or `code`."""
    assert planned.spec is not None
    rows = planned.spec.queries[0].spec.rows
    text = None if rows is None else rows.sql or rows.code
    # The position comes from a driver.
    if text is None or problem.line is None or not 0 < problem.line <= text.count("\n") + 1:
        return None
    position = Position(problem.line, problem.column or 1)
    return find_query_place(planned.query_places, text, position)


def _find_start(places: TextPlaces) -> Position:
    return Position(places.parts[0].line, places.parts[0].column)


def _error_code(facts: PlannedFacts) -> str:
    """Return why the graph has no way for a job."""
    is_refused = facts.query_changed and facts.on_query_change is OnQueryChange.REFUSE
    return "query_change_refused" if is_refused else "job_state_missing"


def _log_error(planned: PlannedJob, queries: list[str]) -> ManifestError:
    """Return the error of a job without state whose sink of files has a log."""
    return ManifestError(
        path=planned.path,
        code="file_sink_has_log",
        message=(
            f"{planned.name}: the directory that {', '.join(queries)} writes to has the log of an"
            " earlier run. Without its state, Spark would drop the first batches silently."
        ),
        hint="Choose another `path` for the sink, or leave `path` out: each version then gets a"
        " directory of its own.",
        job=planned.name,
    )


def _with_state(planned: PlannedJob, checked: CheckedJob, checks: Checks) -> PlannedJob:
    """Return a job with the state from which its new run begins."""
    facts = planned.facts
    assert facts is not None
    update: dict[str, object] = {}
    savepoint = checks.savepoints.get(checked.found_savepoint or "")
    if planned.decision is JobDecision.RESUME_LATEST:
        # The query and the configuration are those of the deployed version.
        update["spec"] = None
        update["keeps_run"] = checked.found_checkpoint
    keeps_state = planned.decision in {
        JobDecision.RESUME_LATEST,
        JobDecision.RESTART_FROM_SAVEPOINT,
    }
    needs_savepoint = keeps_state and not facts.is_running and not checked.found_checkpoint
    if needs_savepoint and savepoint is not None:
        update["restores_from"] = savepoint.id
    return planned.model_copy(update=update)


def _note_ineffective_keys(
    name: str, decision: JobDecision, current: JobVersion | None, spec: VersionSpec
) -> list[str]:
    """Return a note on changed configuration that Spark ignores while the job keeps its state."""
    if current is None or decision is not JobDecision.RESTART_FROM_SAVEPOINT:
        return []
    # All queries of a job have the same configuration.
    old, new = (version.queries[0].spec.conf for version in (current.spec, spec))
    keys = list_ineffective_keys(old, new)
    if not keys:
        return []
    note = (
        f"{', '.join(keys)}: the change has no effect yet, because Spark continues with the values"
        " that the state was written with. The new values apply when the job starts without state:"
        f" headrace job start {name} --clean"
    )
    return [note]


def _find_state(checked: CheckedJob) -> Literal["savepoint", "checkpoint"] | None:
    if checked.found_checkpoint:
        return "checkpoint"
    return "savepoint" if checked.found_savepoint else None


def _judge(
    planned: PlannedJob, current: JobVersion | None, spec: VersionSpec
) -> Compatibility | None:
    facts = planned.facts
    assert facts is not None
    is_judged = facts.on_query_change is OnQueryChange.KEEP_COMPATIBLE and facts.query_changed
    if current is None or not is_judged:
        return None
    return judge_versions(current.spec, spec)


def judge_versions(old: VersionSpec, new: VersionSpec) -> Compatibility:
    """Return whether a version can continue from the state of another one."""
    return judge(
        old.summaries,
        new.summaries,
        _summarize_sinks(old.queries),
        _summarize_sinks(new.queries),
    )


def _summarize_sinks(queries: list[JobQuery]) -> dict[str, SinkSummary]:
    return {query.name: _summarize_sink(query) for query in queries}


def _summarize_sink(query: JobQuery) -> SinkSummary:
    command = parse(query.spec.text).command
    assert isinstance(command, SaveStream)
    options = {key.lower(): value for key, value in _list_options(query, command)}
    provider = find_sink(query.spec.sink)
    given = (options[key] for key in provider.place_options if options.get(key))
    return SinkSummary(
        provider=provider.name,
        path=query.spec.path if not query.needs_path else None,
        table=".".join(command.target) if command.to_table else next(given, None),
        output_mode=(command.output_mode or provider.modes[0]),
    )


def _list_options(query: JobQuery, command: SaveStream) -> Options:
    """Return the options of the sink of a query and of its statement together."""
    definitions = (parse(text).command for text in query.spec.definitions)
    sink = next((each for each in definitions if isinstance(each, CreateSink)), None)
    return override_options(() if sink is None else sink.options, command.options)


def _choose_number(
    decision: JobDecision, current: JobVersion | None, spec: VersionSpec
) -> int | None:
    """Return the number of the version that is to run, as far as the plan can tell it."""
    if current is None:
        return 1
    is_same = current.spec.query_fingerprint == spec.query_fingerprint
    is_clean = decision in {JobDecision.START_CLEAN, JobDecision.RESTART_CLEAN}
    return current.version if is_same and not is_clean else current.version + 1


def _has_expectations(spec: VersionSpec) -> bool:
    rows = (query.spec.rows for query in spec.queries)
    return any(each is not None and each.expectations for each in rows)


def _version_error(planned: PlannedJob) -> ManifestError:
    return ManifestError(
        path=planned.path,
        code=UpgradeUnfinished.code,
        message=f"{planned.name}: the driver of the session {planned.session} has an older version,"
        " which does not know `expect`.",
        hint="Close the session (headrace session close), and deploy again.",
        job=planned.name,
    )


def _session_error(planned: PlannedJob, checks: Checks) -> ManifestError:
    failure = checks.session_failures[0] if checks.session_failures else None
    cause = "" if failure is None else f": {failure.message}"
    return ManifestError(
        path=planned.path,
        code="session_cannot_start" if failure is None else failure.code,
        message=f"The session {planned.session} could not check the job{cause}",
        hint="headrace session list shows the session, and headrace session log its log.",
        job=planned.name,
    )
