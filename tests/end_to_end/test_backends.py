"""A node whose drivers run on real clusters, through the same HTTP calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.clusters import LOOPBACK, as_settings, bare_python
from tests.support.node import NodeProcess
from tests.support.standalone import StandaloneCluster, running_standalone
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[StandaloneCluster]:
    with running_standalone() as standalone:
        yield standalone


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, cluster: StandaloneCluster
) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("backends")
    profile = {
        "backend": "spark-submit",
        "master": cluster.master,
        "cluster_url": cluster.url,
        "env": LOOPBACK,
        "conf": {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "600m",
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "4",
            # Executors have no Headrace.
            "spark.pyspark.python": bare_python(folder),
        },
    }
    process = NodeProcess(
        folder / "home", **as_settings({"standalone": profile}), CATALOG__KIND="memory"
    )
    yield process
    process.close()


def test_select(node: NodeProcess, cluster: StandaloneCluster) -> None:
    session = node.session(profile="standalone")
    node.wait_running(session)
    assert cluster.applications() == [f"headrace-{session}-1"]
    assert node.rows("SELECT 1", session) == [[1]]
    shuffled = "SELECT id % 3 AS k, count(*) FROM range(0, 300000, 1, 3) GROUP BY k ORDER BY k"
    assert node.rows(shuffled, session) == [["0", "100000"], ["1", "100000"], ["2", "100000"]]
    spread = node.run("SELECT id, sha2(CAST(id AS STRING), 256) FROM range(100000)", session)
    assert spread["state"] == "success", spread["error"]
    node.http.delete(f"/api/v1/sessions/{session}")
    wait_until(lambda: not cluster.applications(), what="the application has ended")
