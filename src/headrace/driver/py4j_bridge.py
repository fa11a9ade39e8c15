"""Ways into the JVM that PySpark has none of its own for: session state is not in its API."""

from __future__ import annotations

import base64
import json
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession


class Py4JBridge:
    """What is read and made in the JVM of one session. Every call may raise Py4JError.

    Every look into the JVM is a round trip, so nothing is looked up before it is asked for.
    """

    def __init__(self, session: SparkSession) -> None:
        root: Any = session._jvm  # noqa: SLF001 - PySpark has no public way to it
        self.root = root
        self.session = session._jsparkSession  # noqa: SLF001
        self._context = session.sparkContext
        self._types: dict[str, Any] = {}

    @cached_property
    def state(self) -> Any:
        """Spark's SessionState."""
        return self.session.sessionState()

    @cached_property
    def context(self) -> Any:
        """Spark's SparkContext."""
        return self._context._jsc.sc()  # noqa: SLF001

    def type(self, name: str) -> Any:
        """A class by its full name, to be called or to call its static methods."""
        if name not in self._types:
            self._types[name] = getattr(self.root, name)
        return self._types[name]

    def some(self, value: Any) -> Any:
        """A Scala Option of it."""
        return self.type("scala.Option").apply(value)

    def none(self) -> Any:
        """An empty Scala Option."""
        return self.type("scala.Option").empty()

    def singleton(self, name: str) -> Any:
        """A Scala object."""
        return getattr(self.type(f"{name}$"), "MODULE$")

    def catalog(self, name: str) -> Any:
        """A catalog of the session. The first who asks starts it: it may be out of reach."""
        self.activate()
        return self.state.catalogManager().catalog(name)

    def activate(self) -> None:
        """Catalogs ask their thread which session, and so which configuration, they are of."""
        self.type("org.apache.spark.sql.classic.SparkSession").setActiveSession(self.session)

    def map_of(self, scala_map: Any) -> dict[str, str]:
        """A map of strings, in one call however large it is."""
        return self.java_map(self._collections.asJava(scala_map))

    def java_map(self, java_map: Any) -> dict[str, str]:
        """The same of a Java map."""
        known: dict[str, str] = json.loads(self._mapper.writeValueAsString(java_map))
        return known

    def list_of(self, sequence: Any) -> list[Any]:
        """What a Scala sequence holds."""
        return [sequence.apply(at) for at in range(sequence.size())]

    def sequence(self, values: list[Any]) -> Any:
        """A Scala sequence."""
        made = self.type("java.util.ArrayList")()
        for value in values:
            made.add(value)
        return self._collections.asScala(made).toSeq()

    def mapping(self, values: dict[str, Any]) -> Any:
        """An immutable Scala map."""
        made = self.type("java.util.HashMap")()
        for key, value in values.items():
            made.put(key, value)
        maps = self.singleton("scala.collection.immutable.Map")
        return getattr(maps, "from")(self._collections.asScala(made))

    def array(self, values: list[str]) -> Any:
        """A Java array of strings."""
        made = self._gateway.new_array(self.type("java.lang.String"), len(values))
        for at, value in enumerate(values):
            made[at] = value
        return made

    def array_of(self, java_class: str, values: list[Any]) -> Any:
        """A Java array of objects of that class."""
        made = self._gateway.new_array(self.type(java_class), len(values))
        for at, value in enumerate(values):
            made[at] = value
        return made

    def field(self, of: Any, name: str, owner: str | None = None) -> Any:
        """A private field of a Spark object: what has no method that lists it.

        `owner` is the class that declares it, where that is not the object's own. A lazy value that
        nobody has asked for yet is None.
        """
        holder = of.getClass()
        while owner is not None and holder.getName() != owner:
            holder = holder.getSuperclass()
        declared = holder.getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(of)

    def serialize(self, value: Any) -> str:
        """A Java object as text. Raises Py4JError for what cannot be serialised."""
        return base64.b64encode(self._serde.serialize(value)).decode()

    def deserialize(self, text: str) -> Any:
        """What `freeze` was given. Raises Py4JError, e.g. for another version of Spark."""
        return self._serde.deserialize(base64.b64decode(text))

    @cached_property
    def _gateway(self) -> Any:
        return self._context._gateway  # noqa: SLF001

    @cached_property
    def _mapper(self) -> Any:
        return self.type("com.fasterxml.jackson.databind.ObjectMapper")()

    @property
    def _collections(self) -> Any:
        return self.type("scala.jdk.javaapi.CollectionConverters")

    @property
    def _serde(self) -> Any:
        return self.type("org.apache.spark.util.Utils")
