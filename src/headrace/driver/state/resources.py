"""Jars, files and archives that statements have added."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.writes.commit_protocol import JAR_NAME

KINDS = ("jars", "files", "archives")


def capture(jvm: Py4JBridge) -> dict[str, list[str]]:
    """Return the original URIs of the added resources, by kind."""
    context = jvm.context
    uris = {
        "jars": context.listJars(),
        "files": context.listFiles(),
        "archives": context.listArchives(),
    }
    return {
        kind: [
            _find_original(jvm, uri)
            for uri in jvm.list_of(uris[kind])
            if uri.rpartition("/")[2] != JAR_NAME
        ]
        for kind in KINDS
    }


def restore(jvm: Py4JBridge, kind: str, uri: str) -> None:
    """Add a resource to the session; `kind` is one of KINDS. Raises Py4JError."""
    if kind == "jars":
        jvm.state.resourceLoader().addJar(uri)
    elif kind == "files":
        jvm.context.addFile(uri, True)
    else:
        jvm.context.addArchive(uri)


def _find_original(jvm: Py4JBridge, uri: str) -> str:
    """Return the URI of the file behind a `spark://` URI; any other URI is returned unchanged.

    Under `spark://` URIs, the file server of the driver serves local files to the executors.
    """
    parts = urlsplit(uri)
    if parts.scheme != "spark":
        return uri
    kind, _, name = parts.path.removeprefix("/").partition("/")
    server = jvm.type("org.apache.spark.SparkEnv").get().rpcEnv().fileServer()
    file = jvm.field(server, kind).get(unquote(name))
    return uri if file is None else str(file.toURI().toString())
