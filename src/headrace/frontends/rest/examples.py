"""Examples of bodies, for the OpenAPI document. A test compares them with their schemas."""

from __future__ import annotations

from headrace.frontends.rest.schemas import Json, page_of
from headrace.model.request_fields import SessionFields, describe_fields

SESSION_ID = "se_019358f0c2a17c3e8a6b5f4d3c2b1a09"
STATEMENT_ID = "st_019358f0d4b27f10b1c2d3e4f5a6b7c8"
NODE_ID = "no_019358f0b1907b1fa1b2c3d4e5f60718"
STREAM_ID = "sq_019358f1a0b17d20a1b2c3d4e5f60718"
DEPLOYMENT_ID = "de_019358f2b1c27e30b2c3d4e5f6071829"
AT = "2026-11-24T10:00:00.000000Z"
LATER = "2026-11-24T10:00:02.600000Z"
QUERY_ID = "5f0c1d9e-3d8c-4c8e-9d34-0d8f5b1c7a21"
_MANIFEST = "name: clicks\ntarget-table: clicks\nsql: SELECT * FROM `${TOPIC}`\n"
_DEFINITIONS = "CREATE STREAM clicks FROM rate;\nCREATE SINK clicks TO parquet;\n"

_SPEC: Json = {
    "profile": "default",
    "conf": {"spark.sql.shuffle.partitions": "8"},
    "catalog": None,
    "database": "sales",
    "jars": [],
    "files": [],
    "py_files": [],
}
_SESSION: Json = {
    **_SPEC,
    "id": SESSION_ID,
    "number": 12,
    "name": "etl",
    "owner": "ada",
    "kind": "interactive",
    "state": "running",
    "busy": False,
    **{field.key: field.example for field in describe_fields(SessionFields).values()},
    "parallelism": 8,
    "pool": False,
    "warm": False,
    "streams": 0,
    "epoch": 1,
    "lost": [],
    "driver": {"pid": 4711, "spark_version": "4.1.3", "application_id": "local-1763978400000"},
    "created_at": AT,
    "started_at": LATER,
    "ended_at": None,
    "last_update_time": LATER,
    "error": None,
}
_LIVY_SESSION: Json = {
    "id": 12,
    "name": "etl",
    "appId": "local-1763978400000",
    "owner": "ada",
    "proxyUser": None,
    "state": "idle",
    "kind": "sql",
    "appInfo": {"driverLogUrl": None, "sparkUiUrl": None, "executorLogUrls": None},
    "log": [],
}
_LIVY_BATCH: Json = {
    "id": 13,
    "name": None,
    "appId": "local-1764279600000",
    "owner": "root",
    "proxyUser": None,
    "state": "running",
    "appInfo": {"driverLogUrl": None, "sparkUiUrl": None, "executorLogUrls": None},
    "log": [],
}
_LIVY_FIELD = {"name": "x", "type": "integer", "nullable": False, "metadata": {}}
_LIVY_TABLE: Json = {"schema": {"type": "struct", "fields": [_LIVY_FIELD]}, "data": [[1]]}
_LIVY_STATEMENT: Json = {
    "id": 0,
    "code": "SELECT 1 AS x",
    "state": "available",
    "output": {
        "status": "ok",
        "execution_count": 0,
        "data": {"application/json": _LIVY_TABLE},
    },
    "progress": 1.0,
    "started": 1763978400000,
    "completed": 1763978402600,
}
_COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "total", "type": "decimal(10,2)"}]
_ROWS = [["1", "12.50"], ["2", None]]
_STATEMENT: Json = {
    "id": STATEMENT_ID,
    "session_id": SESSION_ID,
    "ordinal": 0,
    "kind": "interactive",
    "state": "success",
    "statement": "SELECT id, total FROM orders ORDER BY id",
    "owner": "ada",
    "created_at": AT,
    "waiting_since": AT,
    "launched_at": AT,
    "started_at": AT,
    "cancel_requested_at": None,
    "cancel_reason": None,
    "cancel_note": None,
    "ended_at": LATER,
    "attempts": 1,
    "queue_position": None,
    "waiting_for": None,
    "reason": None,
    "reason_code": None,
    "atomic": None,
    "note": None,
    "progress": {
        "jobs": 1,
        "stages_done": 1,
        "stages_total": 1,
        "tasks_done": 4,
        "tasks_total": 4,
        "tasks_active": 0,
        "tasks_failed": 0,
        "rows_read": 2,
        "bytes_read": 1024,
        "rows_written": 0,
        "bytes_written": 0,
    },
    "error": None,
    "result": {
        "schema": _COLUMNS,
        "row_count": 2,
        "byte_count": 40,
        "chunks": 1,
        "truncated": False,
        "disposition": "inline",
        "expires_at": "2026-11-25T10:00:02.600000Z",
        "gone": False,
        "gone_reason": None,
        "flight": None,
    },
    "rows": _ROWS,
    "next_chunk": None,
}
_WAITING: Json = {
    **_STATEMENT,
    "state": "waiting",
    "launched_at": None,
    "started_at": None,
    "ended_at": None,
    "attempts": 0,
    "queue_position": 3,
    "waiting_for": {
        "code": "queue",
        "text": "It is behind 2 statements of its session.",
        "since": AT,
        "statement_id": None,
    },
    "reason": "It is behind 2 statements of its session.",
    "reason_code": "queue",
    "progress": None,
    "result": None,
    "rows": None,
}
_VERSION: Json = {
    "version": 2,
    "revision": 3,
    "query_id": QUERY_ID,
    "query_created_at": AT,
    "decision": "restart-from-savepoint",
    "reason": "The filter of the query has changed.",
    "from_state": "file:/data/state/clicks/savepoints/1",
    "outcome": "deployed",
    "deployment": DEPLOYMENT_ID,
    "created_at": AT,
    "manifest": _MANIFEST,
}
_DEPLOYMENT: Json = {
    "id": DEPLOYMENT_ID,
    "action": "deploy",
    "state": "planned",
    "jobs": [
        {
            "name": "clicks",
            "path": "jobs/clicks.yaml",
            "decision": "restart-from-savepoint",
            "reason": "The filter of the query has changed.",
            "hint": "",
            "version": 2,
            "session": "job-clicks",
            "changed": ["query"],
            "diff": "-WHERE status = 200\n+WHERE status < 400\n",
            "notes": [],
            "step": None,
            "failure": None,
            "written": [],
        }
    ],
    "errors": [],
    "notes": [],
    "breaking": [
        {
            "kind": "job",
            "name": "daily",
            "table": "visits",
            "column_name": "amount",
            "cause": "clicks",
            "message": "column amount of visits no longer exists after the change of clicks",
            "line": 2,
            "column": 7,
        }
    ],
    "has_changes": True,
    "state_location": "file:/data/state",
    "created_at": AT,
    "applied_at": None,
    "ended_at": None,
}
_JOB: Json = {
    "id": "jo_019358f2b1c27e30b2c3d4e5f607182a",
    "name": "clicks",
    "state": "running",
    "version": 2,
    "session": SESSION_ID,
    "state_location": "file:/data/state",
    "queries": [STREAM_ID],
    "last_batch": 41,
    "deployment": None,
    "failure": None,
    "reason": None,
    "reason_code": None,
    "freshness": None,
    "created_at": AT,
    "updated_at": LATER,
    "current": _VERSION,
    "savepoints": [
        {
            "id": "sp_019358f2b1c27e30b2c3d4e5f607182b",
            "version": 1,
            "run": "1",
            "place": "file:/data/state/clicks/savepoints/1",
            "state": "verified",
            "files": 84,
            "bytes": 90112,
            "is_clean": True,
            "created_at": AT,
        }
    ],
    "waiting_runs": 0,
    "seconds_between_starts": None,
}
_EVENT: Json = {
    "cursor": "1.0.4711",
    "entity": "statement",
    "entity_id": STATEMENT_ID,
    "from": "waiting",
    "to": "launched",
    "at": AT,
    "actor": f"driver:{SESSION_ID}:1",
    "detail": {},
}

_EXECUTION: Json = {
    "plan": "== Physical Plan ==\n* Filter (2)\n+- Scan parquet sales.orders (1)\n",
    "operators": [
        {"depth": 0, "name": "Filter", "metrics": {"number of output rows": "2"}},
        {
            "depth": 1,
            "name": "Scan parquet sales.orders",
            "metrics": {"number of output rows": "1,000", "scan time": "12 ms"},
        },
    ],
    "operators_omitted": 0,
    "stages": [
        {
            "id": 7,
            "attempt": 0,
            "name": "collect at Main.scala:1",
            "state": "complete",
            "started_at": AT,
            "ended_at": LATER,
            "tasks_total": 4,
            "tasks_done": 4,
            "tasks_failed": 0,
            "tasks_killed": 0,
            "run_seconds": 3.1,
            "median_task_seconds": 0.2,
            "longest_task_seconds": 2.4,
            "rows_read": 1000,
            "bytes_read": 16384,
            "rows_written": 0,
            "bytes_written": 0,
            "shuffle_rows_read": 0,
            "shuffle_bytes_read": 0,
            "shuffle_rows_written": 0,
            "shuffle_bytes_written": 0,
            "memory_bytes_spilled": 0,
            "disk_bytes_spilled": 0,
            "failure": None,
        }
    ],
    "stages_omitted": 0,
    "tasks_active": 0,
}

BODIES: dict[str, list[Json]] = {
    "SessionRequest": [
        {
            "name": "etl",
            "profile": "default",
            "conf": {"spark.sql.shuffle.partitions": "8"},
            "database": "sales",
            "idle_timeout": "30m",
        }
    ],
    "SessionBody": [_SESSION],
    "SessionPage": [page_of(_SESSION)],
    "StatementRequest": [
        {
            "statement": "SELECT id, total FROM orders WHERE total > :least ORDER BY id",
            "parameters": [{"name": "least", "value": "10.00", "type": "DECIMAL(10,2)"}],
            "wait_timeout": "10s",
            "row_limit": 1000,
        },
        {"statement": "INSERT INTO orders SELECT * FROM staging", "session": "etl"},
    ],
    "StatementBody": [_STATEMENT, _WAITING],
    "ExecutionBody": [_EXECUTION],
    "StatementPage": [page_of({**_STATEMENT, "rows": None}, STATEMENT_ID)],
    "RowsBody": [
        {"schema": _COLUMNS, "rows": _ROWS, "chunk": 0, "next_chunk": None},
        {"schema": _COLUMNS, "rows": _ROWS, "offset": 1000, "next_offset": 1002},
    ],
    "PlanRequestBody": [
        {
            "manifests": [{"path": "jobs/clicks.yaml", "text": _MANIFEST}],
            "definitions": [{"path": "jobs/streams.sql", "text": _DEFINITIONS}],
            "variables": {"TOPIC": "clicks"},
        }
    ],
    "StartRequestBody": [{"clean": False}],
    "RollbackRequestBody": [{"version": 1}],
    "DeploymentBody": [_DEPLOYMENT],
    "DeploymentPage": [page_of(_DEPLOYMENT)],
    "JobBody": [_JOB],
    "JobPage": [page_of({**_JOB, "savepoints": [], "waiting_runs": None})],
    "VersionPage": [page_of(_VERSION)],
    "EventPage": [page_of(_EVENT, "1.0.4711")],
    "AsyncQueryRequest": [
        {"datasource": "spark_catalog", "lang": "sql", "query": "SELECT 1 AS x"},
    ],
    "AsyncQueryCreated": [{"queryId": STATEMENT_ID, "sessionId": SESSION_ID}],
    "AsyncQueryResult": [
        {
            "status": "SUCCESS",
            "schema": [{"name": "x", "type": "integer"}],
            "datarows": [[1]],
            "total": 1,
            "size": 1,
        },
        {"status": "running"},
    ],
    "LivyVersion": [
        {
            "url": "",
            "branch": "0.2.0",
            "revision": "0.2.0",
            "version": "0.9.0",
            "date": "",
            "user": "headrace",
        }
    ],
    "LivySessionRequest": [{"kind": "sql", "driverMemory": "2g", "idleTimeout": "30m"}],
    "LivySession": [_LIVY_SESSION],
    "LivySessionList": [{"from": 0, "total": 1, "sessions": [_LIVY_SESSION]}],
    "LivyBatchRequest": [{"file": "s3://bucket/reports/daily.sql", "name": "daily"}],
    "LivyBatch": [_LIVY_BATCH],
    "LivyBatchList": [{"from": 0, "total": 1, "sessions": [_LIVY_BATCH]}],
    "LivyState": [{"id": 12, "state": "idle"}],
    "LivyLog": [
        {"id": 12, "from": 0, "total": 1, "log": ["26/11/24 10:00:02 INFO SparkContext: Running"]}
    ],
    "LivyMessage": [{"msg": "deleted"}],
    "LivyError": [{"msg": "Session '12' does not exist."}],
    "LivyStatementRequest": [{"code": "SELECT 1 AS x", "kind": "sql"}],
    "LivyStatement": [_LIVY_STATEMENT],
    "LivyStatementList": [{"total_statements": 1, "statements": [_LIVY_STATEMENT]}],
    "ClusterInfo": [
        {
            "name": NODE_ID,
            "cluster_name": "headrace",
            "cluster_uuid": "_na_",
            "version": {
                "distribution": "opensearch",
                "number": "3.0.0",
                "build_type": "unknown",
                "build_hash": "unknown",
                "build_date": "unknown",
                "build_snapshot": False,
                "lucene_version": "none",
                "minimum_wire_compatibility_version": "2.0.0",
                "minimum_index_compatibility_version": "2.0.0",
            },
            "tagline": "Headrace 0.1.0: SQL on Apache Spark",
        }
    ],
    "Health": [{"status": "ok", "node_id": NODE_ID, "version": "0.1.0"}],
    "Ready": [{"status": "ready", "node_id": NODE_ID, "version": "0.1.0", "warnings": []}],
    "Problem": [
        {
            "type": "urn:headrace:error:unknown_parameter",
            "title": "The call does not have this query parameter.",
            "status": 400,
            "code": "unknown_parameter",
            "detail": "Unknown query parameter: 'limti'.",
            "hint": "Did you mean 'limit'? Allowed: before, limit, session, state.",
        }
    ],
    "OpenSearchRefusal": [
        {"status": 406, "error": "Content-Type header [text/plain] is not supported"}
    ],
    "OpenSearchError": [
        {
            "status": 400,
            "error": {
                "type": "AsyncQueryNotFoundException",
                "reason": "Invalid Request",
                "details": f"There is no statement {STATEMENT_ID}.",
            },
        }
    ],
}
"""Examples by the name of their schema. The first is the one that readers see."""

TEXTS: dict[tuple[str, str], str] = {
    ("read_session_log", "text/plain"): "26/11/24 10:00:02 INFO SparkContext: Running Spark\n",
    ("read_metrics", "text/plain"): 'headrace_live_statements{state="waiting"} 3.0\n',
    ("read_result", "text/csv"): "id,total\r\n1,12.50\r\n2,\r\n",
    ("list_events", "text/event-stream"): (
        "id: 1.0.4711\r\nevent: statement\r\n"
        f'data: {{"cursor":"1.0.4711","entity":"statement","entity_id":"{STATEMENT_ID}",'
        f'"from":"waiting","to":"launched","at":"{AT}","actor":"driver","detail":{{}}}}\r\n\r\n'
    ),
}
"""Examples of bodies that are not JSON, by the id of the operation and the media type."""
