"""MongoDB's connector in the Spark of a test, and a server in its JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.driver.spark_version.bridge import Py4JBridge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JARS = Path(__file__).parents[2] / ".tools" / "mongodb"
_SERVER = "de.bwaldvogel.mongo"


def mongodb_jars() -> list[Path]:
    """Return the jars of the connector and of the server; none if they were not downloaded."""
    return sorted(_JARS.glob("*.jar"))


class MongoServer:
    """A server that keeps its documents in memory."""

    def __init__(self, jvm: Py4JBridge, server: Any) -> None:
        self._jvm = jvm
        self._server = server
        self.uri = f"mongodb://127.0.0.1:{server.bind().getPort()}"

    def read(self, collection: str) -> list[dict[str, Any]]:
        """Return the documents of a collection of the database `test`, without their ids."""
        clients = self._jvm.type("com.mongodb.client.MongoClients")
        client = clients.create(self.uri)
        try:
            found = client.getDatabase("test").getCollection(collection).find()
            documents = found.into(self._jvm.type("java.util.ArrayList")())
            rows = [json.loads(document.toJson()) for document in documents]
        finally:
            client.close()
        return [{key: row[key] for key in row if key != "_id"} for row in rows]


@contextmanager
def run_mongodb(session: SparkSession) -> Iterator[MongoServer]:
    """Run a server in the JVM of a session. Fails the test if the jars were not downloaded."""
    if not mongodb_jars():
        pytest.fail("The jars of MongoDB are missing. Run scripts/setup-jars mongodb.")
    jvm = Py4JBridge(session)
    backend = jvm.type(f"{_SERVER}.backend.memory.MemoryBackend")()
    server = jvm.type(f"{_SERVER}.MongoServer")(backend)
    try:
        yield MongoServer(jvm, server)
    finally:
        server.shutdownNow()
