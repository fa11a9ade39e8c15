"""SQLAlchemy's own compliance suite, against a node with Spark.

    .venv/bin/pytest -n0 -c tests/client/sqlalchemy_suite/pytest.ini \
        --dburi headrace://token:TOKEN@localhost:8040/ tests/client/sqlalchemy_suite/suite.py

The node needs the database `test_schema`, which is created.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

sys.path.insert(0, str(Path(__file__).parent))
for _name in ("headrace", "headrace.rest"):
    registry.register(_name, "headrace.client.sqlalchemy_dialect", "HeadraceDialect")
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403 - its hooks
