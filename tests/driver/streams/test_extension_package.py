"""A package outside of Headrace adds a source, a sink and a catalog by its entry points."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import extension_package
from tests.support.streams import StartRun, finish

from headrace.control.streams.checks import check_create_sink, check_create_stream
from headrace.errors import InvalidStatement
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, CreateStream
from headrace.model import stream_providers
from headrace.model.stream_providers import find_sink, find_source

STREAM = "CREATE STREAM ticking FROM ticks OPTIONS ('count' = '3')"
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
    for module in ("acme_providers.py", "acme_driver.py"):
        shutil.copy(folder / module, site)
    monkeypatch.syspath_prepend(str(site))
    _forget_packages()
    yield site
    _forget_packages()
    for name in ("acme_providers", "acme_driver"):
        sys.modules.pop(name, None)


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


def test_the_guide_shows_the_modules_of_the_package(package: Path) -> None:
    text = GUIDE.read_text()
    for module in ("acme_providers.py", "acme_driver.py"):
        assert (package / module).read_text() in text


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_query_reads_the_source_and_writes_to_the_sink_of_a_package(
    package: Path, start: StartRun, tmp_path: Path
) -> None:
    from headrace.driver.ctas.catalogs import load_implementations

    load_implementations.cache_clear()
    assert load_implementations()["com.acme.AcmeCatalog"].kind == "acme"
    load_implementations.cache_clear()
    out = tmp_path / "out"
    save = f"SAVE STREAM ticking TO spool TRIGGER ONCE OPTIONS ('folder' = '{out}')"
    finish(start(save, STREAM))

    lines = [line for file in (out / "0").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["tick"] for line in lines) == [0, 1, 2]
