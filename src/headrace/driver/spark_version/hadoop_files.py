"""File operations through Hadoop's FileSystem, as Spark uses it, and faster local files.

For local files, Hadoop's own class starts a process for each new file and directory.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from weakref import WeakSet

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.driver.spark_version.bridge import HADOOP_PATH, Py4JBridge, class_name, compile_java
from headrace.files.places import identify, lower_scheme

_LOG = logging.getLogger("headrace.driver")
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"
"""Spark's writer of files that appear complete or not at all, on any file system."""
_COMPLETE = re.compile(r"(file:|(hdfs|s3a)://[^/?#]+)(/(?!\.{1,2}(/|$))[^/]+)+")
"""A URI that is complete and as Hadoop's Path writes it. It takes no call to know that."""
_BUFFER = 1024 * 1024
_FILE_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


class HadoopFiles:
    """Files of any Hadoop file system.

    A location is a URI or a path of the default file system. Every call may raise Py4JError.
    """

    def __init__(self, session: SparkSession, *, conf: Any = None) -> None:
        """Access the files of a session.

        Args:
            conf: Hadoop's configuration; None: that of the session.
        """
        self._jvm = Py4JBridge(session)
        if conf is not None:
            self.conf = conf

    def qualify(self, location: str) -> str:
        """Return the complete URI of a location, with its scheme."""
        if _COMPLETE.fullmatch(location):
            return location
        path, system = self.resolve(location)
        return str(system.makeQualified(path).toString())

    def identify(self, location: str) -> str:
        """Return the identity of the place of a location, by which writers are compared."""
        return identify(self.qualify(location))

    def exists(self, location: str) -> bool:
        path, system = self.resolve(location)
        return bool(system.exists(path))

    def is_empty(self, location: str, *, ignore_prefix: str | None = None) -> bool:
        """Return whether the location does not exist or is an empty directory.

        Entries whose names begin with `ignore_prefix` do not count.
        """
        path, system = self.resolve(location)
        return not system.exists(path) or _is_empty_directory(path, system, ignore_prefix)

    def remove(self, location: str) -> None:
        """Remove a file, or a directory with its contents. Do nothing if it does not exist."""
        path, system = self.resolve(location)
        system.delete(path, True)

    def remove_entries(self, location: str, prefixes: list[str]) -> None:
        """Remove the entries of a directory whose names begin with one of the prefixes."""
        path, system = self.resolve(location)
        for prefix in prefixes:
            pattern = self._jvm.type(HADOOP_PATH)(path, f"{prefix}*")
            # None if the directory does not exist.
            for entry in system.globStatus(pattern) or []:
                system.delete(entry.getPath(), True)

    def remove_if_empty(self, location: str) -> bool:
        """Remove an empty directory. Return whether nothing exists at the location afterwards."""
        path, system = self.resolve(location)
        return not system.exists(path) or (
            _is_empty_directory(path, system) and bool(system.delete(path, False))
        )

    def list_files(self, location: str) -> list[str]:
        """Return the paths of all files below a directory, relative to it.

        Paths that begin with `_` come last: they are the logs and markers (`_delta_log`,
        `_SUCCESS`) that make the other files a table.
        """
        return sorted(self._walk(location), key=lambda file: (file.startswith("_"), file))

    def touch(self, location: str) -> None:
        """Create an empty file, or empty an existing one."""
        path, system = self.resolve(location)
        overwrites = True
        system.create(path, overwrites).close()

    def move(self, source: str, target: str) -> bool:
        """Move a file or directory. Return False if the target exists or the move fails."""
        source_path, system = self.resolve(source)
        target_path, _system = self.resolve(target)
        if system.exists(target_path):
            return False
        system.mkdirs(target_path.getParent())
        return bool(system.rename(source_path, target_path))

    def _walk(self, location: str) -> Iterator[str]:
        path, system = self.resolve(location)
        if not system.exists(path):
            return
        root = system.makeQualified(path).toString().rstrip("/") + "/"
        files = system.listFiles(path, True)
        while files.hasNext():
            yield str(files.next().getPath().toString()).removeprefix(root)

    @cached_property
    def conf(self) -> Any:
        """Hadoop's configuration."""
        return self._jvm.state.newHadoopConf()

    def resolve(self, location: str) -> tuple[Any, Any]:
        """Return Hadoop's Path and FileSystem of a location."""
        path = self._jvm.type(HADOOP_PATH)(self.to_hadoop(location))
        return path, path.getFileSystem(self.conf)

    def to_hadoop(self, location: str) -> str:
        """Return a location as Hadoop has to read it.

        Hadoop accepts a scheme in upper case, but lists the files there under one in lower case.
        Hadoop's client of S3 has the scheme `s3a`. Some distributions, for example Amazon EMR, have
        a client of their own for `s3`.
        """
        location = lower_scheme(location)
        scheme, separator, rest = location.partition("://")
        if scheme != "s3" or not separator or self.conf.get("fs.s3.impl") is not None:
            return location
        return f"s3a://{rest}"

    def knows_scheme(self, location: str) -> bool:
        """Return whether Hadoop has a file system for the scheme of a URI."""
        scheme = self.to_hadoop(location).partition(":")[0]
        try:
            self._jvm.type("org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, self.conf)
        except Py4JJavaError:
            return False
        return True

    def read_text(self, location: str, *, max_bytes: int | None = None) -> str | None:
        """Return the text of a file, or None if it does not exist.

        A file that is larger than `max_bytes`, or something else than a file, has the text "".
        """
        path, system = self.resolve(location)
        if not system.exists(path):
            return None
        status = system.getFileStatus(path)
        is_too_large = max_bytes is not None and status.getLen() > max_bytes
        if is_too_large or not status.isFile():
            return ""
        stream = system.open(path)
        try:
            return str(self._jvm.type("org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def size_of(self, location: str) -> int:
        """Return the size of a file in bytes; -1 if it does not exist."""
        path, system = self.resolve(location)
        return int(system.getFileStatus(path).getLen()) if system.exists(path) else -1

    def copy(self, source: str, target: str) -> tuple[int, int]:
        """Copy a file inside the JVM. Return the size and the CRC-32 of what was read."""
        path, system = self.resolve(target)
        overwrites = True
        return self._read_through(source, system.create(path, overwrites))

    def checksum(self, location: str) -> int:
        """Return the CRC-32 of a file."""
        sink = self._jvm.type("java.io.OutputStream").nullOutputStream()
        _size, checksum = self._read_through(location, sink)
        return checksum

    def _read_through(self, location: str, output: Any) -> tuple[int, int]:
        """Copy a file to a stream, close both, and return the size and the CRC-32."""
        path, system = self.resolve(location)
        checksum = self._jvm.type("java.util.zip.CRC32")()
        stream = self._jvm.type("java.util.zip.CheckedInputStream")(system.open(path), checksum)
        counted = self._jvm.type("org.apache.commons.io.input.CountingInputStream")(stream)
        utilities = self._jvm.type("org.apache.hadoop.io.IOUtils")
        utilities.copyBytes(counted, output, _BUFFER, True)
        return int(counted.getByteCount()), int(checksum.getValue())

    def close_thread_connection(self) -> None:
        """Close this thread's connection to the JVM, at the end of the thread."""
        self._jvm.close_thread_connection()

    def create(self, location: str, text: str) -> bool:
        """Write a text to a new file in one step. Return False if the file exists already."""
        try:
            self._write_atomic(location, text, overwrites=False)
        except Py4JJavaError as error:
            if class_name(error.java_exception) != _FILE_EXISTS:
                raise
            return False
        return True

    def replace(self, location: str, text: str) -> None:
        """Write a text to a file in one step: a reader sees the old file or the new one."""
        self._write_atomic(location, text, overwrites=True)

    def _write_atomic(self, location: str, text: str, *, overwrites: bool) -> None:
        path, _system = self.resolve(location)
        manager = self._jvm.singleton(_CHECKPOINT_FILES).create(path.getParent(), self.conf)
        manager.mkdirs(path.getParent())
        stream = manager.createAtomic(path, overwrites)
        try:
            stream.write(bytearray(text.encode()))
        except BaseException:
            stream.cancel()
            raise
        stream.close()


def _is_empty_directory(path: Any, system: Any, ignore_prefix: str | None = None) -> bool:
    if not system.getFileStatus(path).isDirectory():
        return False
    names = (str(entry.getPath().getName()) for entry in system.listStatus(path))
    return all(ignore_prefix is not None and name.startswith(ignore_prefix) for name in names)


_lock = threading.Lock()
_prepared: WeakSet[SparkContext] = WeakSet()
"""Applications in which the installation was tried."""


def install_local_files(session: SparkSession) -> None:
    """Let the JVM of an application set the permissions of local files itself.

    Call this before each statement that may write. Only the first call of an application does
    something. If it fails, Hadoop's own class stays in use.
    """
    with _lock:
        if session.sparkContext in _prepared:
            return
        _prepared.add(session.sparkContext)
        jvm = Py4JBridge(session)
        try:
            installs = compile_java(jvm.root, "LocalFiles").install(
                jvm.context.hadoopConfiguration()
            )
            _LOG.debug("the JVM sets the permissions of local files: %s", installs)
        except Py4JError as error:
            _LOG.warning("writes to local files start a process for each file: %s", error)
