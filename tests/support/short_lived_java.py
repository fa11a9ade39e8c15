"""Options that make the short-lived JVMs of the tests start faster.

Such a JVM spends its time on loading Spark's classes and on compiling code that hardly runs again.
The options select a simple compiler and collector, and the archive of classes that drivers use
(headrace.control.host.class_archive). A JVM with other jars ignores the archive.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.config.home import cache_folder
from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.java import find_java

_VARIABLE = "JDK_JAVA_OPTIONS"
# With the C1 compiler alone, the JVM reserves a code cache that Spark fills within minutes.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
# A script reads the output of Spark's launcher: warnings of the JVM must not go to stdout.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def apply() -> None:
    """Set the options for all JVMs of this process and its children, unless options are set."""
    archive = archive_of_the_tests()
    shared = f" {_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else ""
    os.environ.setdefault(_VARIABLE, _OPTIONS + shared)


def archive_of_the_tests() -> Path:
    """Return the path at which the nodes of this user have the archive too."""
    archive = ClassArchives(cache_folder() / "classes").find(find_java())
    assert archive is not None
    return archive
