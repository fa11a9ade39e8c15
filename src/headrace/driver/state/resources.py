"""Jars, files and archives that statements have added."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from headrace.driver.py4j_bridge import Py4JBridge

KINDS = ("jars", "files", "archives")


def capture(jvm: Py4JBridge) -> dict[str, list[str]]:
    """Where each was added from, by kind."""
    context = jvm.context
    listed = {
        "jars": context.listJars(),
        "files": context.listFiles(),
        "archives": context.listArchives(),
    }
    return {kind: [_origin(jvm, uri) for uri in jvm.list_of(listed[kind])] for kind in KINDS}


def restore(jvm: Py4JBridge, kind: str, uri: str) -> None:
    """Adds one again."""
    if kind == "jars":
        jvm.state.resourceLoader().addJar(uri)
    elif kind == "files":
        jvm.context.addFile(uri, True)
    else:
        jvm.context.addArchive(uri)


def _origin(jvm: Py4JBridge, uri: str) -> str:
    """Where a resource came from that the driver serves to its executors under a name."""
    parts = urlsplit(uri)
    if parts.scheme != "spark":
        return uri
    kind, _, called = parts.path.removeprefix("/").partition("/")
    server = jvm.type("org.apache.spark.SparkEnv").get().rpcEnv().fileServer()
    file = jvm.field(server, kind).get(unquote(called))
    return uri if file is None else str(file.toURI().toString())
