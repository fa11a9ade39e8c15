"""Hadoop's local files, whose permissions the JVM sets without a process for each file."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java
from headrace.driver.spark_version.hadoop_files import install_local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def jvm(spark: SparkSession) -> Py4JBridge:
    install_local_files(spark)
    return Py4JBridge(spark)


def files_of(jvm: Py4JBridge) -> Any:
    """Return Hadoop's object for local files."""
    root = jvm.type("java.net.URI").create("file:///")
    return jvm.type("org.apache.hadoop.fs.FileSystem").get(root, jvm.context.hadoopConfiguration())


def permission(jvm: Py4JBridge, mode: str) -> Any:
    return jvm.type("org.apache.hadoop.fs.permission.FsPermission")(mode)


def test_all_local_files_of_an_application_have_the_class(jvm: Py4JBridge) -> None:
    files = files_of(jvm)
    assert files.getRaw().getClass().getName() == "headrace.LocalFiles"
    # What Hadoop and Hive add to local files, such as checksums, stays as it is.
    assert files.getClass().getName().endswith("LocalFileSystem")


@pytest.mark.parametrize("mode", ["640", "600", "755", "000", "1777"])
def test_a_permission_is_the_one_that_hadoop_asks_for(
    jvm: Py4JBridge, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "a b%20").mkdir()
    path = jvm.type("org.apache.hadoop.fs.Path")(str(tmp_path / "a b%20"))
    files_of(jvm).setPermission(path, permission(jvm, mode))
    assert mode_of(tmp_path / "a b%20") == int(mode, 8)


def test_new_files_and_directories_obey_the_umask_of_the_configuration(
    spark: SparkSession, jvm: Py4JBridge, tmp_path: Path
) -> None:
    conf = jvm.context.hadoopConfiguration()
    earlier = conf.get("fs.permissions.umask-mode")
    conf.set("fs.permissions.umask-mode", "027")
    try:
        spark.range(1).write.parquet(str(tmp_path / "rows"))
    finally:
        conf.set("fs.permissions.umask-mode", earlier)
    modes = {mode_of(path) for path in (tmp_path / "rows").iterdir()}
    assert (mode_of(tmp_path / "rows"), modes) == (0o750, {0o640})


def test_directories_of_a_group_stay_directories_of_the_group(
    jvm: Py4JBridge, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2775)
    path = jvm.type("org.apache.hadoop.fs.Path")(str(tmp_path / "shared" / "new"))
    files_of(jvm).mkdirs(path, permission(jvm, "750"))
    assert mode_of(tmp_path / "shared" / "new") == 0o2750


def test_a_missing_file_is_an_error(jvm: Py4JBridge, tmp_path: Path) -> None:
    path = jvm.type("org.apache.hadoop.fs.Path")(str(tmp_path / "missing"))
    with pytest.raises(Exception, match="NoSuchFileException"):
        files_of(jvm).setPermission(path, permission(jvm, "644"))


def test_another_class_for_local_files_stays(jvm: Py4JBridge) -> None:
    """Also the class itself: a second installation changes nothing."""
    before = files_of(jvm).getRaw()
    installs = compile_java(jvm.root, "LocalFiles").install(jvm.context.hadoopConfiguration())
    assert installs is False
    assert files_of(jvm).getRaw().equals(before)


def test_a_link_is_followed(jvm: Py4JBridge, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    path = jvm.type("org.apache.hadoop.fs.Path")(str(tmp_path / "link"))
    files_of(jvm).setPermission(path, permission(jvm, "604"))
    assert mode_of(tmp_path / "file") == 0o604
