"""The files of a deployment: manifests, template and definitions, read where the command runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.client.http import Json
from headrace.deploy.variables import find_variables
from headrace.errors import InvalidRequest

TEMPLATE_NAMES = ("job-template.yaml", "job-template.yml")
"""Names of the template of a folder, which is used unless another one is named."""
_MANIFESTS = (".yaml", ".yml")
_DEFINITIONS = (".sql",)


def read_files(paths: Sequence[str], *, template: str | None, definitions: Sequence[str]) -> Json:
    """Return the files of a deployment as the API takes them.

    A folder stands for the manifests in it, at any depth. Unless the caller names others, the
    `job-template.yaml` and the `*.sql` files of the folders are template and definitions.

    Raises InvalidRequest if a file cannot be read, or if there is no manifest.
    """
    folders = [Path(path) for path in paths if Path(path).is_dir()]
    manifests = [file for path in paths for file in _expand(Path(path), _MANIFESTS)]
    template_file = Path(template) if template else _find_template(folders)
    manifests = [
        file
        for file in dict.fromkeys(manifests)
        if file.name not in TEMPLATE_NAMES and file != template_file
    ]
    if not manifests:
        raise InvalidRequest(f"There is no manifest (*.yaml) in {', '.join(paths)}.")
    sources = definitions or [str(folder) for folder in folders]
    definition_files = [file for path in sources for file in _expand(Path(path), _DEFINITIONS)]
    request: Json = {
        "manifests": [_read(file) for file in manifests],
        "definitions": [_read(file) for file in dict.fromkeys(definition_files)],
    }
    if template_file is not None:
        request["template"] = _read(template_file)
    return request | {"variables": _read_variables(request)}


def _expand(path: Path, suffixes: tuple[str, ...]) -> Iterable[Path]:
    """Return a file, or the files of a folder with these suffixes, in order."""
    if not path.is_dir():
        return [path]
    found = (file for file in sorted(path.rglob("*")) if file.suffix.lower() in suffixes)
    return [file for file in found if not _is_hidden(file.relative_to(path))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _find_template(folders: Sequence[Path]) -> Path | None:
    found = [folder / name for folder in folders for name in TEMPLATE_NAMES]
    found = [file for file in found if file.is_file()]
    if len(found) > 1:
        raise InvalidRequest(
            f"There are several templates: {', '.join(map(str, found))}. Choose one with"
            " --template."
        )
    return found[0] if found else None


def _read(file: Path) -> Json:
    try:
        return {"path": str(file), "text": file.read_text(encoding="utf-8")}
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file} is not UTF-8 text (byte {error.start}).") from error


def _read_variables(request: Json) -> dict[str, str]:
    """Return the values of the variables that the files name, from the environment."""
    files = [*request["manifests"], *request["definitions"]]
    if "template" in request:
        files.append(request["template"])
    names = {name for file in files for name in find_variables(file["text"])}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}
