"""Introductions of the generated pages: the task, an example, and what holds for the whole page."""

from __future__ import annotations

SETTINGS = """
# Settings
Set a key in `headrace.toml`:

```toml
[http]
port = 8041

[profiles.large]
master = "local[8]"
conf = { "spark.driver.memory" = "8g" }
```

Or set the key in the environment:

```text
export HEADRACE_HTTP__PORT=8041
```

Headrace uses the first of these sources that contains the key:
1. a flag of the command, for example `--port`;
2. the environment: `HEADRACE_` and the key in capitals, with two underscores for each dot;
3. the file `headrace.toml` in the working directory, or the file that `HEADRACE_CONFIG` names;
4. the default.

An unknown key is an error, which names the nearest known key. A duration is a number and a unit
(`us ms s m min h d`), for example `"30s"`; a number without a unit is an error. A node reads its
settings once, at start. A dash in the column `default` means that the key has no value.
"""

REASONS = """
# Reasons
Ask why a statement waits or failed, why a stream does not run, or what happens to a job:

```text
headrace statement show st_…   # reason  It is behind 2 statements of its session.
headrace stream show clicks    # reason  Retry 4 of ∞ in 32 s: Kafka refused the connection.
headrace job show clicks       # reason  A change of the job is in progress (stop).
```

`GET /statements/{id}`, `GET /streams/{id}` and `GET /jobs/{name}` have the sentence as `reason`,
and its kind as `reason_code`. Both are null if there is nothing to explain: a statement has
succeeded, a stream or a job runs. Programs should compare codes, because the sentences are for
people. A list of statements does not say why a statement waits, unless it has `view=waiting` or
`view=running`.
"""

ERRORS = """
# Errors
Look up an error by its code. Codes are stable, so programs should compare codes and not messages.

```text
TOKEN=$(cat .headrace/token)
curl -s --oauth2-bearer $TOKEN localhost:8040/api/v1/statements/st_none
{"type": "urn:headrace:error:statement_not_found", "title": "…", "status": 404,
 "code": "statement_not_found", "detail": "…"}
```

The HTTP API returns an error as problem+json (RFC 9457) with the fields `type`, `title`, `status`,
`code` and `detail`, and `line`, `column` and `hint` if they are known. The shell prints `detail`
and `hint`, and exits with the exit code of the error.

A failed statement is not an HTTP error. The field `error` of the statement contains `code`,
`message`, Spark's `condition`, `sqlstate`, `line` and `column`. Lines and columns start at 1, and
columns count code points. The query parameter `trace=true` adds the stack trace.

Errors of Spark have the code `syntax_error`, `analysis_error` or `execution_error`, with Spark's
condition and SQLSTATE. If a driver cannot start Spark, its session fails with `spark_unavailable`.
[Troubleshooting](../guides/troubleshooting.md) lists causes and fixes.
"""

EVENTS = """
# Events
Read every state change, as a list or as a stream:

```text
TOKEN=$(cat .headrace/token)
curl -s --oauth2-bearer $TOKEN "localhost:8040/api/v1/events?entity=statement"
curl -sN --oauth2-bearer $TOKEN localhost:8040/api/v1/events -H 'Accept: text/event-stream'
curl -sN --oauth2-bearer $TOKEN -H 'Accept: text/event-stream' \\
  "localhost:8040/api/v1/events?after=now"
```

Each state change writes one event, in the same transaction. To read the next page, pass `next` of a
page as `after`. A reader never misses an event, even if the transaction of the event commits late.
The stream sends all events from the first one, or those after `after`. With `after=now`, it sends
the events from now on. The `id` of an event is its cursor: a client that connects again sends the
last one as the header `Last-Event-ID`, which takes precedence over `after`, and misses no event.
[Lifecycles](../explanation/lifecycles.md) has diagrams with the reason for each transition.
"""

METRICS = """
# Metrics
Configure Prometheus to read the metrics of a node from this address:

```text
TOKEN=$(cat .headrace/token)
curl -s --oauth2-bearer $TOKEN localhost:8040/metrics
```

[Monitor a cluster](../guides/monitoring.md) explains the alerts and the dashboard that come with
Headrace.

Gauges show the state of the store at the time of the request. They count the whole store, so every
node returns the same values: read them from one node, or take their maximum. Only `headrace_home_*`
and `headrace_store_up` are gauges of the node. Counters and
histograms count the work of this node since its start. For the cluster, take their sum over all
nodes: a node counts the ends of statements and the starts of drivers that its own transactions
commit, and the requests that it answers. Restarts of a node reset them, which `rate()` expects.

```text
# Share of statements that failed in the last hour
sum(rate(headrace_statements_ended_total{outcome="failed"}[1h]))
  / sum(rate(headrace_statements_ended_total[1h]))
# 95th percentile of the time from submit to the start of interactive statements
histogram_quantile(0.95,
  sum by (le) (rate(headrace_statement_start_seconds_bucket{kind="interactive"}[5m])))
```

The gauges of single streaming queries have the labels `owner`, `scope` and `query`. They cover all
owners, and at most 500 live queries: those of the oldest sessions. A name of more than 200
characters is replaced by the id of the query. A query that has ended has no samples, and neither
has a query without a measured batch, except `headrace_stream_failures`.
"""

CLI = """
# Commands
Run SQL, or show the options of a command:

```text
headrace sql "SELECT 1 AS x"
headrace COMMAND --help
```

Commands write rows to standard output and all other text to standard error.
[Use the shell](../guides/shell.md) explains scripts, parameters, formats, exit codes, and which
node a command uses.
"""

HTTP = """
# HTTP API
Submit a statement and read its rows:

```text
TOKEN=$(cat .headrace/token)                  # the token of the node in this folder
curl -s --oauth2-bearer $TOKEN localhost:8040/api/v1/statements \\
  -H 'Content-Type: application/json' \\
  -d '{"statement": "SELECT :n * 2 AS twice", "wait_timeout": "60s",
       "parameters": [{"name": "n", "value": 21}]}'
curl -s --oauth2-bearer $TOKEN localhost:8040/api/v1/sessions \\
  -H 'Content-Type: application/json' -d '{"name": "mine"}'
curl -s --oauth2-bearer $TOKEN localhost:8040/api/v1/statements \\
  -H 'Content-Type: application/json' \\
  -d '{"statement": "SELECT id FROM range(1000000)", "session": "mine"}'
curl -s --oauth2-bearer $TOKEN localhost:8040/api/v1/statements/st_…
curl -s --oauth2-bearer $TOKEN localhost:8040/api/v1/statements/st_…/result
curl -s --oauth2-bearer $TOKEN "localhost:8040/api/v1/statements/st_…/result?format=csv"
curl -s --oauth2-bearer $TOKEN "localhost:8040/api/v1/statements/st_…/result?offset=1000&limit=100"
curl -s --oauth2-bearer $TOKEN -X POST localhost:8040/api/v1/statements/st_…/cancel
```

- `http://localhost:8040/docs` shows every call in a browser, with examples. Enter the token under
  *Authorize* to send requests from this page. The node serves the page and all of its files: it
  needs no connection to other hosts. To read the page, no token is needed.
- `/api/v1/openapi.json` describes the API for programs. The operation ids, for example
  `submit_statement`, are stable: clients can be generated from the document.
- An unknown query parameter gets 400 `unknown_parameter`. The problem names the parameter, the
  nearest one that exists, and all that the call has.
- Send the token as `Authorization: Bearer …`. With `headrace serve --no-auth`, no token is needed.
- A request for a host that the node does not serve gets 421. A request of a web page of another
  site gets 403 ([hosts](../guides/install-and-run-as-a-service.md#name-the-hosts-of-the-node)).
- Request bodies are JSON, up to 16 MiB and 100,000 values. An unknown field and a NUL character are
  errors. Integers are at most 2⁵³ - 1, which every program that reads JSON keeps exactly. `10.0` is
  accepted for `10`; `10.5` and `"10"` are refused. Times are UTC with microseconds (RFC 3339).
  Durations are strings such as `"30s"`, up to 100 years. In `openapi.json`, their format is
  `headrace-duration`, and `x-minimum` and `x-maximum` are their limits.
- Lists are `{"items": […], "next": …}`, newest first. To read the next page, pass `next` as
  `before`. Events are listed oldest first, and `next` is passed as `after`.
- Errors are problem+json with a stable `code` ([errors](errors.md)). Below, each call lists the
  errors of its own. Every call can also answer 400 (an invalid request), 401 (no valid token), 403,
  408 and 431 (a request that takes too long, or has too large headers), 413, 421, 500 (a fault of
  the node, which its log names) and 503 (the store does not answer, or too many connections).
- For 24 hours, a second submit with the same `Idempotency-Key` returns the first statement.
- The first statement of a new session waits until a driver has started. To reuse a driver, name its
  session in the submit.
"""

OPTIONS = """
# Options of sessions and statements
Set an option in a session, or for one statement:

```sql
SET headrace.ctas.atomicity = require;
```

```sh
headrace sql --session etl --create --conf headrace.ctas.atomicity=require "SELECT 1"
```

The places for these keys are `SET`, `conf` of sessions and statements, `spark-properties` of
manifests, and `conf` of profiles. Each place refuses a value that this page does not allow, and a
key that begins with `headrace.`, `spark.headrace.`, `pstl.retry.` or `spark.pstl.retry.` and is not
on this page. Spark itself accepts every other key. What the operator reserves with
[`conf_policy`](settings.md#conf_policy) cannot be set with `SET` either, and neither can a property
of Hadoop under its own name, such as `fs.defaultFS`.

The driver enforces this for SQL: for `SET`, for `EXECUTE IMMEDIATE`, and in scripts. It cannot
enforce it for Python code of a job or a hook, which runs in the process of the driver and can
change any state of Spark.

A `SET` or `RESET` of a key that the `conf` of the same statement names is kept after the statement,
like every other. The `conf` itself ends with the statement.
"""

QUERY_OPTIONS = """
## Options of streaming queries
A streaming query takes these options in `OPTIONS (…)` of `SAVE STREAM` and `CREATE SINK`. They win
over the settings of the session. Upper and lower case are equal.
"""

STREAMS = """
# Streams
Define a stream, and save its rows to a sink:

```text
CREATE STREAM ticks FROM rate OPTIONS ('rowsPerSecond' = '5');
SAVE STREAM ticks TO json TRIGGER 10 SECONDS;
```

[Run streams](../guides/streams.md) explains the statements. An option that this page does not list
for a provider is an error, because Spark ignores options that it does not know. Upper and lower
case are equal.

Every other source and sink that Spark's `format()` takes works too, by its short name or its class:
`FROM pulsar`, `TO com.acme.Provider`. Headrace passes its columns, options, output mode, trigger
and partitions to Spark as they are. The lists of queries show such a sink as
`at least once, not checked`.

Every sink with a write-ahead log also takes `checkpointLocation`. Every sink takes the options of
the [retry policy](../guides/streams.md#choose-when-a-failed-query-starts-again).

- **Exactly once**: each row of a batch appears once, whatever fails.
- **Effectively once**: a batch may be written twice, and the second write changes nothing.
- **At least once**: the rows of a batch that was being written may appear twice.
"""

OTHER_CODES = """
## Other codes
These codes have no class of errors. Failures of statements and of streaming queries can have \
them, and so can errors of the Python client, and the single problems of a deployment: those in \
`problems` of `invalid_manifests`, and in the `errors` of a plan. The message says what to do.
"""

LISTED_KEYS = """
## Keys of Spark that requests may set
`conf` of sessions, statements and manifests may set these keys, in which `*` stands for any
characters, unless `conf_policy.deny` or `conf_policy.force` names them, and those of
`conf_policy.allow`. A property of Hadoop or Hive counts under each of its names, with and without
`spark.` or `spark.hadoop.`. SQL `SET` also takes other keys
([rules](../guides/install-and-run-as-a-service.md#decide-which-configuration-callers-may-set)).
"""
