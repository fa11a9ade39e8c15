"""Introductions of the generated pages: the task, an example, and what holds for the whole page."""

from __future__ import annotations

SETTINGS = """
# Settings
Set a key in `headrace.toml`, or in the environment:

```toml
[http]
port = 8041

[profiles.large]
master = "local[8]"
conf = { "spark.driver.memory" = "8g" }
```
```text
export HEADRACE_HTTP__PORT=8041
```

A value comes from the first of these sources that has it:
1. a flag of the command, for example `--port`;
2. the environment: `HEADRACE_` and the key in capitals, with two underscores for each dot;
3. the file `headrace.toml` in the working directory, or the file that `HEADRACE_CONFIG` names;
4. the default.

An unknown key is an error that names the nearest known key. A duration is a number and a unit
(`us ms s m min h d`), for example `"30s"`; a number without a unit is refused. Settings are read
once, at start. A dash means: no value.
"""

ERRORS = """
# Errors
Each error has a stable code. Programs should compare codes, never messages.

```text
curl -s localhost:8040/api/v1/statements/st_none
{"type": "urn:headrace:error:statement_not_found", "title": "…", "status": 404,
 "code": "statement_not_found", "detail": "…"}
```

The HTTP API answers errors as problem+json (RFC 9457): `type`, `title`, `status`, `code`,
`detail`, and where known `line`, `column` and `hint`. The shell prints `detail` and `hint`, and
exits with the exit code. A failed statement is not an HTTP error: its record contains `error` with
`code`, `message`, Spark's `condition`, `sqlstate`, `line` and `column`. Lines and columns are
counted from 1, columns in code points. `trace=true` adds the stack trace.

Errors of Spark itself have the code `syntax_error` or `analysis_error`, otherwise
`execution_error`, with Spark's condition and SQLSTATE. A driver that cannot start Spark ends its
session with `spark_unavailable`. [Troubleshooting](../guides/troubleshooting.md)
has causes and fixes.
"""

EVENTS = """
# Events
Read every state change, as a list or as a stream:

```text
curl -s "localhost:8040/api/v1/events?entity=statement"
curl -sN localhost:8040/api/v1/events -H 'Accept: text/event-stream'
```

Each state change writes one event, in the same transaction. `next` of a page goes into `after` of
the next request. A reader never skips an event, even if its transaction commits late. The stream
sends all events from the start, or those after `Last-Event-ID` or `after`.
[Lifecycles](../explanation/lifecycles.md) has diagrams with the reason for each transition.
"""

METRICS = """
# Metrics
Let Prometheus collect the metrics of a node:

```text
curl -s localhost:8040/metrics -H "Authorization: Bearer $HEADRACE_TOKEN"
```

The node reads gauges of the store at the time of the request. They count the whole store, so they
are equal on every node. Counters count the work of this node since its start.
"""

CLI = """
# Commands
```text
headrace sql "SELECT 1 AS x"
headrace COMMAND --help
```

Rows go to standard output, everything else to standard error. [Use the shell](../guides/shell.md)
explains scripts, parameters, formats, exit codes, and which node a command uses.
"""

HTTP = """
# HTTP API
Submit a statement and read its rows:

```text
curl -s localhost:8040/api/v1/statements -H 'Content-Type: application/json' \\
  -d '{"statement": "SELECT :n * 2 AS twice", "wait_timeout": "60s",
       "parameters": [{"name": "n", "value": 21}]}'
curl -s localhost:8040/api/v1/sessions -H 'Content-Type: application/json' -d '{"name": "mine"}'
curl -s localhost:8040/api/v1/statements -H 'Content-Type: application/json' \\
  -d '{"statement": "SELECT id FROM range(1000000)", "session": "mine"}'
curl -s localhost:8040/api/v1/statements/st_…
curl -s localhost:8040/api/v1/statements/st_…/result
curl -s "localhost:8040/api/v1/statements/st_…/result?format=arrow" -o rows.arrow
curl -s -X POST localhost:8040/api/v1/statements/st_…/cancel
```

- `/api/v1/openapi.json` describes the API for programs.
- If the node has a token, send `Authorization: Bearer …`.
- Bodies are JSON, up to 16 MiB; unknown fields are refused. Times are UTC with microseconds
  (RFC 3339). Durations are strings such as `"30s"`.
- Lists are `{"items": […], "next": …}`, newest first. `next` goes into `before` of the next
  request.
- Errors are problem+json with a stable `code` ([errors](errors.md)).
- With `Idempotency-Key`, a repeated submit gets the first answer, for 24 hours.
- The first statement of a new session waits for a driver to start. Name a session to keep its
  driver.
"""
