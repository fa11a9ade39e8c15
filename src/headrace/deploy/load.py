"""From the texts of manifest files to manifests, with the problems of all files at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from headrace.deploy.flink import FLINK_KEY, translate_flink
from headrace.deploy.manifest import (
    MANIFEST_KEYS,
    META_KEY,
    SCRIPT_CLAUSE_KEYS,
    JobKind,
    JobManifest,
    ManifestMeta,
)
from headrace.deploy.manifest_text import WrittenValue
from headrace.deploy.manifest_validation import read_manifest, read_meta
from headrace.deploy.problems import Findings, ManifestNote, ManifestProblem, Place, SourceText
from headrace.deploy.query_places import list_query_places
from headrace.deploy.variables import replace_in_mapping
from headrace.deploy.yaml_document import read_documents
from headrace.deploy.yaml_values import (
    ScalarKind,
    YamlEntry,
    YamlList,
    YamlMapping,
    YamlScalar,
    YamlValue,
    is_null,
)
from headrace.grammar.lexer import TokenKind, tokenize
from headrace.model.deployment import QueryPlace

_OWN_KEYS = ("name", "sql", "code", "script", META_KEY)
"""Keys that every manifest has for itself."""
_JOB_NAME = "{job_name}"
"""Placeholder in the values of a template, as in those of Flink's SQL runner."""

T = TypeVar("T", bound=YamlValue)


def check_template(template: YamlMapping, findings: Findings) -> None:
    """Report the keys of a template that only a manifest can have."""
    for key in _OWN_KEYS:
        if key in template.entries:
            findings.add_problem(
                template.entries[key].key_place,
                "key_not_allowed",
                f"A template cannot have the key `{key}`.",
                "Move it into the manifests.",
            )


def fill_job_name(template: T, name: YamlScalar) -> T:
    """Return a template in whose values the name of a job takes the place of `{job_name}`."""
    if isinstance(template, YamlMapping):
        entries = {
            key: YamlEntry(entry.key_place, fill_job_name(entry.value, name))
            for key, entry in template.entries.items()
        }
        return replace(template, entries=entries)
    if isinstance(template, YamlList):
        items = tuple(fill_job_name(item, name) for item in template.items)
        return replace(template, items=items)
    if _JOB_NAME not in template.written:
        return template
    # The source would give wrong columns for the longer text.
    return replace(
        template,
        text=template.text.replace(_JOB_NAME, name.text),
        written=template.written.replace(_JOB_NAME, name.written),
        source=None,
    )


def merge_template(manifest: YamlMapping, template: YamlMapping | None) -> YamlMapping:
    """Return a manifest with the defaults of a template. Every value keeps its place.

    Mappings are merged key by key. Any other value of the manifest replaces that of the template,
    and null removes it. The result contains no null, except as an item of a list.
    """
    defaults = {} if template is None else template.entries
    entries: dict[str, YamlEntry] = {}
    for key in dict.fromkeys([*manifest.entries, *defaults]):
        merged = _merge(manifest.entries.get(key), defaults.get(key))
        if merged is not None:
            entries[key] = merged
    return YamlMapping(entries, manifest.place)


def _merge(own: YamlEntry | None, default: YamlEntry | None) -> YamlEntry | None:
    entry = default if own is None else own
    if entry is None or is_null(entry.value):
        return None
    if not isinstance(entry.value, YamlMapping):
        return entry
    base = None
    if own is not None and default is not None and isinstance(default.value, YamlMapping):
        base = default.value
    return YamlEntry(entry.key_place, merge_template(entry.value, base))


_KEYS = (*MANIFEST_KEYS, META_KEY, FLINK_KEY)
_SQL_KEYS = (JobKind.SQL, JobKind.SCRIPT)
_SPELLINGS = {"flink-properties": FLINK_KEY}


@dataclass(frozen=True, slots=True)
class LoadedManifest:
    """A valid manifest."""

    manifest: JobManifest
    """Values with those of variables: to run, and to compare."""
    written: Mapping[str, WrittenValue]
    """Values with references to variables, by key, merged with the template: to keep in files."""
    meta: ManifestMeta | None
    """The version that the file belongs to, if it is the manifest of a deployed job."""
    place: Place
    """Start of the document."""
    query_places: Sequence[QueryPlace] = ()
    """See `list_query_places`."""
    value_places: Mapping[str, Place] = field(default_factory=dict)
    """Places of the values by key, in the manifest or in the template. A Spark property has the
    key `spark-properties.` with its name."""


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """What manifest files contain."""

    manifests: tuple[LoadedManifest, ...]
    problems: tuple[ManifestProblem, ...]
    notes: tuple[ManifestNote, ...]


def load_manifests(
    files: Sequence[SourceText],
    *,
    template: SourceText | None = None,
    variables: Mapping[str, str] | None = None,
) -> LoadedManifests:
    """Return the valid manifests of all files, in order, and the problems of the others.

    A deployment goes on only if there is no problem.

    Args:
        files: Files of one or more YAML documents. Each document is one manifest.
        template: A file of one document, with defaults.
        variables: Values of references such as `${NAME}`.
    """
    loader = _ManifestLoader(template, variables or {})
    for file in files:
        loader.load(file)
    return loader.finish()


class _ManifestLoader:
    """Loads the manifests of one deployment."""

    def __init__(self, template: SourceText | None, variables: Mapping[str, str]) -> None:
        self._findings = Findings()
        self._variables = variables
        self._manifests: list[LoadedManifest] = []
        self._names: dict[str, tuple[str, Place]] = {}
        self._template = None if template is None else self._read_template(template)

    def load(self, file: SourceText) -> None:
        """Load all manifests of a file, unless a limit of the deployment is reached."""
        if self._findings.is_full():
            return
        found_before = self._findings.problem_count
        documents = read_documents(file.path, file.text, self._findings)
        if not documents and self._findings.problem_count == found_before:
            place = Place(file.path, 1, 1)
            self._findings.add_problem(place, "missing_manifest", "The file contains no manifest.")
        for document in documents:
            if self._findings.is_full():
                break
            self._load_document(document)
        self._findings.report_limit(file.path)

    def finish(self) -> LoadedManifests:
        """Return everything that was loaded."""
        findings = self._findings
        return LoadedManifests(tuple(self._manifests), findings.problems, findings.notes)

    def _read_template(self, file: SourceText) -> YamlMapping | None:
        documents = read_documents(file.path, file.text, self._findings)
        if len(documents) > 1:
            message = "The template has more than one document."
            self._findings.add_problem(documents[1].place, "invalid_template", message)
        if not documents:
            return None
        check_template(documents[0], self._findings)
        return self._keep_known_keys(documents[0])

    def _load_document(self, document: YamlMapping) -> None:
        own = self._keep_known_keys(document)
        merged = merge_template(own, self._template_for(own))
        replaced = replace_in_mapping(merged, self._variables, self._findings)
        mapping = translate_flink(replaced, self._findings)
        self._check_name(mapping)
        meta = read_meta(own, self._findings)
        for key in _SQL_KEYS:
            _note_swallowed_lines(mapping.find(key), key, self._findings)
        manifest = read_manifest(mapping, self._variables, self._findings)
        if manifest is not None:
            written = _list_written(mapping)
            query = mapping.find(manifest.kind)
            places = list_query_places(query, document.place.path, self._variables)
            self._manifests.append(
                LoadedManifest(
                    manifest, written, meta, document.place, places, _list_value_places(mapping)
                )
            )

    def _template_for(self, manifest: YamlMapping) -> YamlMapping | None:
        """Return the defaults of one manifest."""
        template = _without_clauses(self._template, manifest)
        name = manifest.find("name")
        if template is None or not isinstance(name, YamlScalar):
            return template
        return fill_job_name(template, name)

    def _keep_known_keys(self, document: YamlMapping) -> YamlMapping:
        """Report the unknown keys of a document; return it without them."""
        for key, entry in document.entries.items():
            if key not in _KEYS:
                self._findings.add_problem(
                    entry.key_place, "unknown_key", f"The key `{key}` is unknown.", _suggest(key)
                )
        known = {key: entry for key, entry in document.entries.items() if key in _KEYS}
        return replace(document, entries=known)

    def _check_name(self, mapping: YamlMapping) -> None:
        """Report a name that another manifest has. Upper and lower case are equal."""
        name = mapping.find("name")
        if not isinstance(name, YamlScalar):
            return
        other, place = self._names.setdefault(name.text.casefold(), (name.text, name.place))
        if place is name.place:
            return
        difference = "" if other == name.text else f", and {other} differs only in case"
        self._findings.add_problem(
            name.place,
            "duplicate_job",
            f"Two manifests have the name {name.text}{difference}. The first is at {place}.",
            "Rename one of the jobs.",
        )


def _note_swallowed_lines(value: YamlValue | None, key: str, findings: Findings) -> None:
    """Note a `--` comment in a text whose lines YAML joins: the lines after it are lost."""
    if not isinstance(value, YamlScalar) or value.source is None or not value.source.joins_lines:
        return
    text = value.written
    for token in tokenize(text):
        if token.kind is TokenKind.COMMENT and text.startswith("--", token.start):
            findings.add_note(
                value.locate(token.start),
                f"YAML joins the lines of `{key}`, so that the lines after this comment belong to"
                f" it. Write the text as a block: `{key}: |`.",
            )
            return


def _suggest(key: str) -> str:
    by_spelling = {known.lower(): known for known in _KEYS} | _SPELLINGS
    spelling = key.lower().replace("_", "-")
    close = difflib.get_close_matches(spelling, by_spelling, n=1)
    if close:
        return f"Did you mean `{by_spelling[close[0]]}`?"
    return f"Known keys: {', '.join(f'`{known}`' for known in _KEYS)}."


def _without_clauses(template: YamlMapping | None, manifest: YamlMapping) -> YamlMapping | None:
    """Return the template for a manifest: the clauses of a script are in its statements."""
    if template is None or JobKind.SCRIPT not in manifest.entries:
        return template
    entries = {k: e for k, e in template.entries.items() if k not in SCRIPT_CLAUSE_KEYS}
    return replace(template, entries=entries)


def _list_value_places(mapping: YamlMapping) -> dict[str, Place]:
    places = {key: entry.value.place for key, entry in mapping.entries.items()}
    properties = mapping.find("spark-properties")
    if isinstance(properties, YamlMapping):
        places |= {
            f"spark-properties.{key}": entry.value.place
            for key, entry in properties.entries.items()
        }
    return places


def _list_written(mapping: YamlMapping) -> dict[str, WrittenValue]:
    """Return the values of a valid manifest as they were written."""
    written: dict[str, WrittenValue] = {}
    for key, entry in mapping.entries.items():
        value = entry.value
        if key == "spark-properties" and isinstance(value, YamlMapping):
            scalars = {k: e.value for k, e in value.entries.items()}
            written[key] = {k: s.written for k, s in scalars.items() if isinstance(s, YamlScalar)}
        elif key != META_KEY:
            written[key] = _to_written(value)
    return written


def _to_written(value: YamlValue) -> WrittenValue:
    if isinstance(value, YamlMapping):
        return {key: _to_written(entry.value) for key, entry in value.entries.items()}
    if isinstance(value, YamlList):
        return [_to_written(item) for item in value.items]
    return value.written.lower() == "true" if value.kind is ScalarKind.BOOLEAN else value.written
