"""A package outside of Headrace adds one of each by its entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import psutil
import pytest
from prometheus_client import CollectorRegistry
from tests.support import extension_package
from tests.support.ctas import ROWS, CtasRun, fetch_rows
from tests.support.journal import JournalLink
from tests.support.launches import READY, make_request, write_waiting_interpreter
from tests.support.streams import StartRun, finish
from tests.support.waiting import wait_until

from headrace.config.settings import load
from headrace.control.launchers.base import LauncherHost
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.registry import LauncherRegistry, build_launchers
from headrace.control.streams.checks import check_create_sink, check_create_stream
from headrace.errors import InvalidSetting, InvalidStatement
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, CreateStream
from headrace.model import stream_providers
from headrace.model.lifecycle import TransactionState
from headrace.model.stream_providers import SINKS, SOURCES, find_sink, find_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "CREATE STREAM ticking FROM ticks OPTIONS ('count' = '3')"
MODULES = ("acme_providers", "acme_driver", "acme_node")
GUIDE = Path(__file__).parents[3] / "docs/guides/extend.md"


def _forget_packages() -> None:
    stream_providers._list_added.cache_clear()
    stream_providers._find_added.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the package for this test; return the directory that is on the path."""
    site = tmp_path / "site"
    folder = Path(extension_package.__file__).parent
    installed = site / "acme-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    shutil.copy(folder / "entry_points.txt", installed)
    for module in MODULES:
        shutil.copy(folder / f"{module}.py", site)
    monkeypatch.syspath_prepend(str(site))
    _forget_packages()
    yield site
    _forget_packages()
    for module in MODULES:
        sys.modules.pop(module, None)


@pytest.mark.usefixtures("package")
def test_a_node_checks_statements_on_the_source_and_the_sink_of_a_package() -> None:
    create = parse(STREAM.replace("'3'", "'3', 'speed' = '1'")).command
    assert isinstance(create, CreateStream)
    with pytest.raises(InvalidStatement, match="speed"):
        check_create_stream("CREATE STREAM ticking FROM ticks OPTIONS ('speed' = '1')", create)
    text = "CREATE SINK s TO spool OPTIONS ('colour' = 'red')"
    sink = parse(text).command
    assert isinstance(sink, CreateSink)
    with pytest.raises(InvalidStatement, match="colour"):
        check_create_sink(text, sink)
    assert find_sink("SPOOL").promise == "at least once"


def test_a_node_loads_no_pyspark_for_the_descriptions_of_a_package(package: Path) -> None:
    code = (
        "import sys; from headrace.model.stream_providers import find_sink, find_source;"
        " assert find_sink('kafka').is_listed and 'acme_providers' not in sys.modules;"
        " assert find_sink('spool').is_listed and find_source('ticks').is_listed;"
        " assert 'pyspark' not in sys.modules and 'acme_driver' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(package)}, check=True)


def test_a_package_that_cannot_be_loaded_is_logged_and_its_sink_is_not_listed(
    package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (package / "acme_providers.py").write_text("raise RuntimeError('no licence')")

    assert not find_sink("spool").is_listed
    assert not find_source("ticks").is_listed
    assert "spool" in caplog.text


def test_every_description_names_a_reader_or_writer_that_exists() -> None:
    from headrace.driver.streams.sink_writer import SinkWriter

    writers = [sink.writer for sink in SINKS.values() if sink.writer is not None]
    assert all(issubclass(resolve_name(name), SinkWriter) for name in writers)
    readers = [source.reader for source in SOURCES.values() if source.reader is not None]
    assert all(callable(resolve_name(name)) for name in readers)
    assert writers
    assert readers


def test_the_guide_shows_the_modules_of_the_package(package: Path) -> None:
    text = GUIDE.read_text()
    for module in MODULES:
        assert (package / f"{module}.py").read_text() in text


def test_a_node_starts_drivers_with_the_launcher_of_a_package(
    package: Path, tmp_path: Path
) -> None:
    python = write_waiting_interpreter(tmp_path / "python")
    niced = {"backend": "niced", "niceness": "7", "python": python}
    settings = load({"home": tmp_path / "home", "profiles": {"slow": niced}})
    profile = settings.profile("slow")
    host = LauncherHost.of_settings(settings)
    launchers = LauncherRegistry(
        build_launchers(settings, host, LocalLauncher(host)), CollectorRegistry()
    )
    assert launchers.backends == ["local", "niced", "spark-submit"]

    request = make_request(tmp_path, profile)
    handle = launchers.start(request)
    try:
        wait_until(lambda: READY in request.log.read_text(), what="the program runs")
        assert psutil.Process(handle["pid"]).nice() == min(19, os.nice(0) + 7)
        assert launchers.find(request.name, profile) == handle
    finally:
        launchers.kill(handle)
    assert not launchers.poll(handle).alive

    with pytest.raises(InvalidSetting, match=r"Unknown setting 'profiles\.x\.niceness'"):
        load({"profiles": {"x": {"niceness": 7}}})
    (package / "acme_providers.py").write_text("raise RuntimeError('no licence')")
    sys.modules.pop("acme_providers")
    with pytest.raises(InvalidSetting, match="backend niced cannot be loaded: no licence"):
        load({"profiles": {"x": niced}})


@pytest.fixture
def acme_session(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """Return a session with a catalog of the Java class of the package, which extends Iceberg's."""
    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(
        "package com.acme;"
        " public class AcmeCatalog extends org.apache.iceberg.spark.SparkCatalog {}"
    )
    classes = tmp_path / "classes"
    (classes / "com/acme").mkdir(parents=True)
    for name, code in compiler.getBytecodes().items():
        (classes / f"{name.replace('.', '/')}.class").write_bytes(code)
    loader.addURL(jvm.java.io.File(str(classes)).toURI().toURL())
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.acme", "com.acme.AcmeCatalog")
    session.conf.set("spark.sql.catalog.acme.type", "hadoop")
    session.conf.set("spark.sql.catalog.acme.warehouse", str(tmp_path / "warehouse"))
    return session


@pytest.mark.spark
@pytest.mark.catalogs
@pytest.mark.usefixtures("package")
def test_a_ctas_creates_a_table_in_the_catalog_of_a_package(acme_session: SparkSession) -> None:
    from headrace.driver.ctas.catalogs import load_implementations

    load_implementations.cache_clear()
    link = JournalLink()
    CtasRun(acme_session, f"CREATE TABLE acme.d.t AS {ROWS}", link)
    load_implementations.cache_clear()

    assert link.staged is not None
    assert link.staged.kind == "acme"
    assert link.steps[-1] is TransactionState.COMMITTING
    assert fetch_rows(acme_session, "SELECT count(*) FROM acme.d.t") == [(100,)]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_query_reads_the_source_and_writes_to_the_sink_of_a_package(
    package: Path, start: StartRun, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    save = f"SAVE STREAM ticking TO spool TRIGGER ONCE OPTIONS ('folder' = '{out}')"
    finish(start(save, STREAM))

    lines = [line for file in (out / "0").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["tick"] for line in lines) == [0, 1, 2]
