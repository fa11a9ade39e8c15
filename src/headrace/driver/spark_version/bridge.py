"""Access to objects of the Spark JVM that PySpark's public API does not expose."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import weakref
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

# Class names of parsed plans that several modules know.
EXECUTE_IMMEDIATE = "UnresolvedExecuteImmediate"
IDENTIFIER_CLAUSE = "PlanWithUnresolvedIdentifier"
INSERT = "InsertIntoStatement"
SCRIPT = "CompoundBody"
WITH = "UnresolvedWith"

DATASET = "org.apache.spark.sql.classic.Dataset"
HADOOP_PATH = "org.apache.hadoop.fs.Path"
_PACKAGE = "headrace.driver.spark_version"
_CLASSES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""Java classes by JVM and full name."""
_SINGLETONS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""Scala objects by JVM and full name."""


class Py4JBridge:
    """Reads and creates JVM objects of one Spark session. Every call may raise Py4JError.

    Each access to the JVM is a round trip. Objects are therefore looked up on first use only, and
    classes once in a process.
    """

    def __init__(self, session: SparkSession) -> None:
        root: Any = session._jvm  # noqa: SLF001 - PySpark has no public access to the JVM
        self.root = root
        self.session = session._jsparkSession  # noqa: SLF001
        self._context = session.sparkContext
        self._classes = _CLASSES.setdefault(root, {})
        self._singletons = _SINGLETONS.setdefault(root, {})

    @cached_property
    def state(self) -> Any:
        """Spark's SessionState."""
        return self.session.sessionState()

    @cached_property
    def context(self) -> Any:
        """Spark's SparkContext."""
        return self._context._jsc.sc()  # noqa: SLF001

    def type(self, name: str) -> Any:
        """Return a Java class by its full name, for constructor and static calls."""
        java_class = self._classes.get(name)
        if java_class is None:
            java_class = getattr(self.root, name)
            # Py4J takes an unknown name for a package. A later ADD JAR may bring the class.
            if isinstance(java_class, JavaClass):
                self._classes[name] = java_class
        return java_class

    def location_of(self, uri: Any) -> str:
        """Return the location that a java.net.URI names, as Hadoop's Path writes it.

        The text of the URI itself has `%20` for a space, which Path would take literally.
        """
        return str(self.type(HADOOP_PATH)(uri).toString())

    def some(self, value: Any) -> Any:
        """Return a Scala Option that holds the value."""
        return self.type("scala.Option").apply(value)

    def none(self) -> Any:
        """Return an empty Scala Option."""
        return self.type("scala.Option").empty()

    def singleton(self, name: str) -> Any:
        """Return a Scala object of Spark's own jars by its full name.

        An object of a jar that a session has added belongs to the class loader of that session.
        """
        singleton = self._singletons.get(name)
        if singleton is None:
            java_class = self.type(f"{name}$")
            singleton = getattr(java_class, "MODULE$")
            if isinstance(java_class, JavaClass):
                self._singletons[name] = singleton
        return singleton

    def catalog(self, name: str) -> Any:
        """Return a catalog of the session.

        The first access initialises the catalog, which fails if the catalog cannot be reached.
        """
        self.activate()
        return self.state.catalogManager().catalog(name)

    def activate(self) -> None:
        """Set this session as the thread's active one, from which catalogs take their settings."""
        self.type("org.apache.spark.sql.classic.SparkSession").setActiveSession(self.session)

    def map_of(self, scala_map: Any) -> dict[str, str]:
        """Return a Scala map of strings as a dict. Takes one round trip for any size."""
        return self.java_map(self._collections.asJava(scala_map))

    def java_map(self, java_map: Any) -> dict[str, str]:
        """Return a Java map of strings as a dict, like `map_of`."""
        entries: dict[str, str] = json.loads(self._mapper.writeValueAsString(java_map))
        return entries

    def sequence(self, values: list[Any]) -> Any:
        """Return a Scala sequence of the values."""
        java_list = self.type("java.util.ArrayList")()
        for value in values:
            java_list.add(value)
        return self._collections.asScala(java_list).toSeq()

    def hash_map(self, values: dict[str, Any]) -> Any:
        """Return a Java map of the values."""
        java_map = self.type("java.util.HashMap")()
        for key, value in values.items():
            java_map.put(key, value)
        return java_map

    def mapping(self, values: dict[str, Any]) -> Any:
        """Return an immutable Scala map of the values."""
        scala_map = self.singleton("scala.collection.immutable.Map")
        return getattr(scala_map, "from")(self._collections.asScala(self.hash_map(values)))

    def array(self, values: list[str]) -> Any:
        """Return a Java array of strings."""
        return self.array_of("java.lang.String", values)

    def array_of(self, java_class: str, values: list[Any]) -> Any:
        """Return a Java array of objects of that class."""
        java_array = self._gateway.new_array(self.type(java_class), len(values))
        for index, value in enumerate(values):
            java_array[index] = value
        return java_array

    def instantiate(self, java_class: Any) -> Any:
        """Return a new object of a Java class, from its constructor without parameters."""
        constructor = java_class.getDeclaredConstructor(self.array_of("java.lang.Class", []))
        return constructor.newInstance(self.array_of("java.lang.Object", []))

    def field(self, instance: Any, name: str, owner: str | None = None) -> Any:
        """Return the value of a private field of a Java object.

        Args:
            owner: Class that declares the field, if it is a superclass of the object's class.

        Returns:
            The value. None for a lazy Scala value that was not computed yet.
        """
        holder = instance.getClass()
        while owner is not None and holder.getName() != owner:
            holder = holder.getSuperclass()
        declared = holder.getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(instance)

    def deserialize(self, text: str) -> Any:
        """Return the Java object of a base64 text.

        Raises Py4JError, e.g. if another version of Spark serialized the object.
        """
        return self._serde.deserialize(base64.b64decode(text))

    def close_thread_connection(self) -> None:
        """Close the connection of this thread, which ends. Py4J would leave its socket open."""
        connection = self._gateway._gateway_client.get_thread_connection()  # noqa: SLF001
        if connection is not None:
            connection.close()

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


class _Thread(threading.local):
    """What `answer_without_delay` has done in a thread."""

    connection: weakref.ref[Any] | None = None
    """The connection of the thread that was prepared last."""


_THREAD = _Thread()


def answer_without_delay(session: SparkSession) -> None:
    """Let the JVM send its answers on all open connections, this thread's among them, immediately.

    Py4J writes an answer in pieces of 8 KiB, and does not set TCP_NODELAY. The second piece waits
    until Python's host acknowledges the first one, which takes 40 ms. Call this in each thread that
    runs statements; only the first call for a connection does something. Raises Py4JError.
    """
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - PySpark has no public access to Py4J
    connection = gateway._gateway_client.get_thread_connection()  # noqa: SLF001
    earlier = _THREAD.connection
    if connection is not None and earlier is not None and earlier() is connection:
        return
    # The call creates the connection of this thread if there is none.
    connections = Py4JBridge(session).field(
        gateway.java_gateway_server, "connections", "py4j.GatewayServer"
    )
    for open_connection in list(connections.toArray()):
        # Another thread may remove a connection from the list meanwhile, or close it.
        if open_connection is None:
            continue
        with contextlib.suppress(Py4JError):
            socket = open_connection.getSocket()
            if socket is not None:
                socket.setTcpNoDelay(True)
    connection = gateway._gateway_client.get_thread_connection()  # noqa: SLF001
    _THREAD.connection = None if connection is None else weakref.ref(connection)


def activate(session: SparkSession) -> None:
    """Set a session as the thread's active one, from which catalogs take their settings."""
    Py4JBridge(session).activate()


def analysed_plan(frame: DataFrame) -> Any:
    """Return the logical plan of a frame, as Spark's analyser has resolved it."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - not in PySpark's API


def without_aliases(plan: Any) -> Any:
    """Return what a plan gives another name, or the plan itself."""
    while plan_class_name(plan) == "SubqueryAlias":
        plan = plan.child()
    return plan


def parse_plan(session: SparkSession, text: str) -> Any:
    """Return the plan of a statement from Spark's parser. Raises the errors of the parser."""
    return Py4JBridge(session).state.sqlParser().parsePlan(text)


def list_of(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def option_value(option: Any) -> Any:
    """Return the value of a Scala Option, or None if the option is empty."""
    return option.get() if option.isDefined() else None


def class_name(instance: Any) -> str:
    """Return the full name of the class of a Java object."""
    return str(instance.getClass().getName())


def plan_class_name(plan: Any) -> str:
    """Return the class name of a plan or an expression of Spark, without its package.

    This is the prefix that Scala gives to a case class, which takes one round trip. It is empty for
    a class that is no case class.
    """
    return str(plan.productPrefix())


_LOCK = threading.Lock()


def compile_java(root: Any, name: str, package: str = _PACKAGE) -> Any:
    """Return an object of the class `headrace.<name>`, compiled once for each JVM.

    Args:
        root: The JVM, as PySpark returns it.
        package: Python package with the file `<name>.java`. Raises Py4JError.
    """
    # Py4J finds methods by the name of a class. It mixes up two classes of one name.
    with _LOCK:
        return _compile(root, name, package)


@lru_cache
def _compile(root: Any, name: str, package: str) -> Any:
    compiler = root.org.codehaus.janino.SimpleCompiler()
    # The loader of the application also has the jars of catalogs.
    compiler.setParentClassLoader(root.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files(package).joinpath(f"{name}.java").read_text())
    return compiler.getClassLoader().loadClass(f"headrace.{name}").newInstance()
