from __future__ import annotations

import os
from pathlib import Path

from tests.cli.scripted_node import ScriptedNode

from headrace.cli.discovery import connect_home_node
from headrace.cli.home import NodeFile


def test_another_node_at_the_address_of_the_node_file_is_not_used(home: Path) -> None:
    with ScriptedNode() as node:
        other = NodeFile(node.address, token="secret", pid=os.getpid(), node_id="no_other")
        assert connect_home_node(other) is None
        own = NodeFile(node.address, token="secret", pid=os.getpid(), node_id=node.node_id)
        client = connect_home_node(own)
        assert client is not None
        client.close()
        # The token is not sent before the identity of the node is known.
        assert {request.path for request in node.requests} == {"/health"}
