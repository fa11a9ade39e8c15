"""Drafts of jobs: manifests with everything that the files alone decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.config.settings import Settings
from headrace.control.conf import check_conf, check_session_conf
from headrace.control.jobs.compile import (
    check_definition,
    choose_session,
    compile_batch,
    compile_queries,
    find_key_of_clause,
)
from headrace.control.places import SessionPlaces, check_watched_location
from headrace.deploy.definitions import Definitions, NeededDefinitions, load_definitions
from headrace.deploy.fingerprint import configuration_fingerprint, query_fingerprint
from headrace.deploy.load import LoadedManifest, load_manifests
from headrace.deploy.manifest_validation import find_wrong_property
from headrace.deploy.problems import ManifestProblem, SourceText
from headrace.deploy.query_places import list_part_places
from headrace.deploy.script_statements import read_statements
from headrace.errors import HeadraceError, InvalidManifests, InvalidRequest, SecretMisplaced
from headrace.grammar.secret_references import check_has_no_reference, has_reference, list_in_sql
from headrace.grammar.text import offset_at
from headrace.model.deployment import (
    ManifestError,
    QueryPlace,
    TextPlaces,
    VersionDefinitions,
    VersionSpec,
)
from headrace.model.job import JobRows, OnQueryChange
from headrace.model.stream_query import QuerySpec
from headrace.text.readable import describe_count

__all__ = ["PlanRequest", "SourceText"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The files of a deployment, and where it deploys to."""

    manifests: list[SourceText]
    template: SourceText | None = None
    definitions: list[SourceText] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """Values of `${NAME}`."""
    profile: str = "default"
    state_location: str | None = None
    py_files: list[str] = field(default_factory=list)
    prune: bool = False
    owner: str | None = None
    """Owner of the jobs: the caller, or a group of the caller; None: the caller."""


_MAX_BYTES = 4 * 1024 * 1024
"""Size of all files of a deployment together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """A manifest, compiled."""

    name: str
    path: str
    line: int
    spec: VersionSpec
    on_query_change: OnQueryChange
    query_places: Sequence[QueryPlace]
    setup_places: Sequence[TextPlaces] = ()
    expect_place: TextPlaces | None = None
    notes: list[str] = field(default_factory=list)

    def error(self, code: str, message: str, hint: str = "") -> ManifestError:
        """Return an error of the manifest as a whole."""
        return ManifestError(
            path=self.path, line=self.line, code=code, message=message, hint=hint, job=self.name
        )


def read_drafts(request: PlanRequest, settings: Settings) -> tuple[list[JobDraft], list[str]]:
    """Return the drafts of all manifests, and the notes on other files.

    Raises:
        InvalidManifests: With every error of all files.
        InvalidSetting: The profile does not exist.
    """
    settings.profile(request.profile)
    _check_size(request)
    loaded = load_manifests(
        request.manifests, template=request.template, variables=request.variables
    )
    definitions, problems = load_definitions(
        request.definitions, request.variables, check=check_definition
    )
    errors = [_convert(problem) for problem in (*loaded.problems, *problems)]
    notes: dict[str, list[str]] = {}
    for note in loaded.notes:
        notes.setdefault(note.path, []).append(f"line {note.line}: {note.message}")
    drafts = []
    for manifest in loaded.manifests:
        try:
            drafts.append(_compile(manifest, definitions, request, settings, notes))
        except HeadraceError as error:
            needed = definitions.needed_for(manifest.manifest)
            key = _find_wrong_key(manifest, needed, error, settings)
            errors.append(_describe(manifest, error, key, request))
    errors += _find_session_conflicts(drafts)
    # A wrong value of the template is an error of each manifest.
    raise_errors(list(dict.fromkeys(errors)))
    manifests = {file.path for file in request.manifests}
    others = [
        f"{note.path}, line {note.line}: {note.message}"
        for note in loaded.notes
        if note.path not in manifests
    ]
    return drafts, others


def _check_size(request: PlanRequest) -> None:
    """Raise InvalidManifests if the files are too large together: they are parsed in Python."""
    template = [request.template] if request.template else []
    size = 0
    for file in (*template, *request.definitions, *request.manifests):
        size += len(file.text.encode(errors="replace"))
        if size > _MAX_BYTES:
            message = "The files of a deployment are larger than 4 MiB together."
            raise_errors(
                [
                    ManifestError(
                        path=file.path,
                        line=1,
                        code="file_too_large",
                        message=message,
                        hint="Deploy the files in parts.",
                    )
                ]
            )


def raise_errors(errors: Sequence[ManifestError]) -> None:
    """Raise InvalidManifests if there are errors."""
    if errors:
        count = describe_count(len(errors), "error")
        raise InvalidManifests(
            f"{count} in the files of the deployment. Nothing was planned.",
            problems=[error.model_dump() for error in errors],
        )


def _compile(
    loaded: LoadedManifest,
    definitions: Definitions,
    request: PlanRequest,
    settings: Settings,
    notes: dict[str, list[str]],
) -> JobDraft:
    manifest = loaded.manifest
    needed = definitions.needed_for(manifest)
    check_conf(manifest.spark_properties, settings.conf_policy)
    session = choose_session(manifest, profile=request.profile, py_files=request.py_files)
    check_session_conf(session.spec, settings.conf_policy)
    batch = compile_batch(manifest, needed, session)
    files = None if batch is None else batch.rules.files
    if files is not None and files.on_files is not None:
        places = SessionPlaces(settings, session.spec.profile, session.spec.conf)
        check_watched_location(places, files.on_files)
    queries = [] if batch is not None else compile_queries(manifest, needed)
    for query in queries:
        _check_secrets(query.spec)
    spec = VersionSpec(
        written=dict(loaded.written),
        manifest=manifest.model_dump(mode="json", by_alias=True, exclude_none=True),
        definitions=VersionDefinitions(
            streams=list(needed.streams),
            sinks=[sink.to_sql() for sink in needed.sinks],
            setup=list(needed.setup),
        ),
        description=manifest.description,
        query_fingerprint=query_fingerprint(manifest, needed),
        configuration_fingerprint=configuration_fingerprint(manifest, needed),
        session=session,
        queries=queries,
        batch=batch,
    )
    return JobDraft(
        name=manifest.name,
        path=loaded.place.path,
        line=loaded.place.line,
        spec=spec,
        on_query_change=manifest.on_query_change,
        query_places=loaded.query_places,
        setup_places=[*needed.setup_places, *_find_script_places(loaded)],
        expect_place=_find_expect_place(loaded),
        notes=notes.get(loaded.place.path, []),
    )


def _check_secrets(spec: QuerySpec) -> None:
    """Raise InvalidSecretReference or SecretMisplaced for a reference that no driver resolves.

    The error has a position if it is in the text of the query.
    """
    list_in_sql(spec.text)
    rows = spec.rows or JobRows()
    check_has_no_reference(rows.sql or "", "The query of a job")
    check_has_no_reference(rows.code or "", "The code of a job")
    try:
        for text in (*spec.definitions, *rows.setup):
            list_in_sql(text)
    except InvalidRequest as error:
        error.position = None
        raise


def _find_script_places(loaded: LoadedManifest) -> list[TextPlaces]:
    """Return where the statements of Spark's own stand in the script of a manifest."""
    script, parts = loaded.manifest.script, loaded.query_places
    if script is None:
        return []
    statements, _problems = read_statements(script, allow_queries=True)
    places = []
    for statement in statements:
        if statement.command is None:
            start = offset_at(script, statement.start)
            own = list_part_places(parts, start, start + len(statement.text))
            places.append(TextPlaces(path=loaded.place.path, parts=own))
    return places


def _find_expect_place(loaded: LoadedManifest) -> TextPlaces | None:
    place = loaded.value_places.get("expect")
    if place is None:
        return None
    part = QueryPlace(offset=0, line=place.line, column=place.column)
    return TextPlaces(path=place.path, parts=[part])


def _find_session_conflicts(drafts: Sequence[JobDraft]) -> list[ManifestError]:
    """Return an error for each job whose application differs from that of its session."""
    first: dict[str, JobDraft] = {}
    errors = []
    for draft in drafts:
        if draft.spec.runs_in_pool:
            continue
        session = draft.spec.session
        other = first.setdefault(session.name, draft)
        mine, theirs = session.spec.conf, other.spec.session.spec.conf
        if mine != theirs:
            keys = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
            message = (
                f"{draft.name} and {other.name} share the session {session.name}, and differ in"
                f" properties of the Spark application: {', '.join(keys)}."
            )
            hint = "Give both the same values, or give one of them another `session`."
            errors.append(draft.error("session_conflict", message, hint))
    return errors


def _convert(problem: ManifestProblem) -> ManifestError:
    return ManifestError(
        path=problem.path,
        line=problem.line,
        column=problem.column,
        code=problem.code,
        message=problem.message,
        hint=problem.hint or "",
    )


def _describe(
    loaded: LoadedManifest, error: HeadraceError, key: str, request: PlanRequest
) -> ManifestError:
    """Return the error of a manifest, at the value that is wrong.

    The position of the error is one in a generated statement.

    Args:
        key: See `_find_wrong_key`.
    """
    place = loaded.value_places.get(key, loaded.place)
    is_shared = request.template is not None and place.path == request.template.path
    name = loaded.manifest.name
    return ManifestError(
        path=place.path,
        line=place.line,
        column=None if place is loaded.place else place.column,
        code=error.code,
        message=error.message if is_shared else f"{name}: {error.message}",
        hint=error.hint or "",
        job="" if is_shared else name,
    )


def _find_wrong_key(
    loaded: LoadedManifest, needed: NeededDefinitions, error: HeadraceError, settings: Settings
) -> str:
    """Return the key of the manifest whose value an error is about; "" if it is none."""
    properties = loaded.manifest.spark_properties
    wrong = find_wrong_property(properties, lambda conf: check_conf(conf, settings.conf_policy))
    if wrong is not None:
        return f"spark-properties.{wrong}"
    if error.position is None:
        texts = {"sql": loaded.manifest.sql, "code": loaded.manifest.code}
        is_of_secret = isinstance(error, SecretMisplaced)
        keys = [key for key, text in texts.items() if has_reference(text or "")]
        return keys[0] if keys and is_of_secret else ""
    return find_key_of_clause(loaded.manifest, needed, error.position)
