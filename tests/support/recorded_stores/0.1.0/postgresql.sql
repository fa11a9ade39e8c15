CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.backend_budgets (
    backend text NOT NULL,
    next_at timestamp with time zone NOT NULL
);
CREATE TABLE public.catalog_intents (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    identity text NOT NULL,
    action character varying(16) NOT NULL,
    view_id text NOT NULL COLLATE pg_catalog."C",
    path json NOT NULL,
    generation integer,
    query_id text COLLATE pg_catalog."C",
    state character varying(16) NOT NULL,
    due_at timestamp with time zone NOT NULL,
    session_id text COLLATE pg_catalog."C",
    epoch integer,
    claim_until timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT catalog_intents_ended_with_state CHECK (((ended_at IS NOT NULL) = ((state)::text = ANY ((ARRAY['done'::character varying, 'failed'::character varying])::text[])))),
    CONSTRAINT catalog_intents_known_state CHECK (((state)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'done'::character varying, 'failed'::character varying])::text[])))
);
CREATE TABLE public.definitions (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    scope text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    name_key text NOT NULL,
    text text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone
);
CREATE TABLE public.deployments (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    action character varying(16) NOT NULL,
    state character varying(16) NOT NULL,
    plan json NOT NULL,
    created_at timestamp with time zone NOT NULL,
    applied_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT deployments_ended_with_state CHECK (((ended_at IS NOT NULL) = ((state)::text = ANY ((ARRAY['rejected'::character varying, 'applied'::character varying, 'failed'::character varying, 'expired'::character varying])::text[])))),
    CONSTRAINT deployments_known_state CHECK (((state)::text = ANY ((ARRAY['checking'::character varying, 'planned'::character varying, 'rejected'::character varying, 'applying'::character varying, 'applied'::character varying, 'failed'::character varying, 'expired'::character varying])::text[])))
);
CREATE TABLE public.event_generations (
    generation integer NOT NULL,
    server text NOT NULL,
    began_at timestamp with time zone NOT NULL
);
CREATE TABLE public.events (
    id bigint NOT NULL,
    generation integer NOT NULL,
    xid bigint NOT NULL,
    entity text NOT NULL,
    entity_id text NOT NULL COLLATE pg_catalog."C",
    owner text,
    source text,
    target text NOT NULL,
    at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    detail json NOT NULL
);
CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;
CREATE TABLE public.idempotency (
    owner text NOT NULL,
    key text NOT NULL,
    body_hash text NOT NULL,
    statement_id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL
);
CREATE TABLE public.job_changes (
    id text NOT NULL COLLATE pg_catalog."C",
    deployment_id text NOT NULL COLLATE pg_catalog."C",
    job_id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    name text NOT NULL,
    step character varying(16) NOT NULL,
    record json NOT NULL,
    failure json,
    created_at timestamp with time zone NOT NULL,
    stepped_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT job_changes_ended CHECK (((ended_at IS NOT NULL) = ((step)::text = ANY ((ARRAY['applied'::character varying, 'failed'::character varying])::text[])))),
    CONSTRAINT job_changes_known_step CHECK (((step)::text = ANY ((ARRAY['planned'::character varying, 'stop_wanted'::character varying, 'stopped'::character varying, 'verified'::character varying, 'restored'::character varying, 'started'::character varying, 'proven'::character varying, 'undoing'::character varying, 'applied'::character varying, 'failed'::character varying])::text[])))
);
CREATE TABLE public.job_tasks (
    statement_id text NOT NULL COLLATE pg_catalog."C",
    task json NOT NULL,
    outcome json
);
CREATE TABLE public.job_versions (
    id text NOT NULL COLLATE pg_catalog."C",
    job_id text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    revision integer NOT NULL,
    query_id text NOT NULL,
    query_created_at timestamp with time zone NOT NULL,
    spec json NOT NULL,
    decision character varying(32) NOT NULL,
    reason text NOT NULL,
    from_state text,
    last_run text,
    outcome text,
    deployment_id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL
);
CREATE TABLE public.jobs (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    name text NOT NULL,
    name_key text NOT NULL,
    state character varying(16) NOT NULL,
    generation integer NOT NULL,
    state_location text NOT NULL,
    state_place text,
    version_id text COLLATE pg_catalog."C",
    run text,
    change_id text COLLATE pg_catalog."C",
    failure json,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT jobs_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = 'deleted'::text))),
    CONSTRAINT jobs_known_state CHECK (((state)::text = ANY ((ARRAY['deploying'::character varying, 'running'::character varying, 'stopping'::character varying, 'stopped'::character varying, 'failed'::character varying, 'deleted'::character varying])::text[])))
);
CREATE TABLE public.limit_locks (
    counted text NOT NULL
);
CREATE TABLE public.materialized_views (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    name text NOT NULL,
    name_key text NOT NULL,
    identity text NOT NULL,
    target text NOT NULL,
    text text NOT NULL,
    rows json NOT NULL,
    statement_id text NOT NULL COLLATE pg_catalog."C",
    writer_id text NOT NULL COLLATE pg_catalog."C",
    writer_attempt integer,
    generation integer NOT NULL,
    began_at timestamp with time zone NOT NULL,
    current_generation integer,
    fresh_as_of timestamp with time zone,
    query_id text COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone
);
CREATE TABLE public.nodes (
    registration bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    address text NOT NULL,
    version text NOT NULL,
    state character varying(16) NOT NULL,
    profiles json NOT NULL,
    backends json NOT NULL,
    started_at timestamp with time zone NOT NULL,
    present_since timestamp with time zone NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    host json,
    link_version integer DEFAULT 1 NOT NULL,
    confirmed_gone_at timestamp with time zone,
    event_process text,
    CONSTRAINT nodes_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = 'gone'::text))),
    CONSTRAINT nodes_known_state CHECK (((state)::text = ANY ((ARRAY['up'::character varying, 'draining'::character varying, 'gone'::character varying])::text[])))
);
CREATE SEQUENCE public.nodes_registration_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.nodes_registration_seq OWNED BY public.nodes.registration;
CREATE TABLE public.operations (
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    ref text NOT NULL COLLATE pg_catalog."C",
    state character varying(16) NOT NULL,
    node_id text COLLATE pg_catalog."C",
    epoch integer DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT operations_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = 'done'::text))),
    CONSTRAINT operations_known_state CHECK (((state)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'done'::character varying])::text[])))
);
CREATE TABLE public.pending_hook_calls (
    statement_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.results (
    statement_id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    disposition character varying(16) NOT NULL,
    spark_schema json NOT NULL,
    row_count bigint NOT NULL,
    byte_count bigint NOT NULL,
    truncated boolean NOT NULL,
    chunks integer NOT NULL,
    location text,
    data bytea,
    expires_at timestamp with time zone NOT NULL,
    gone_at timestamp with time zone,
    deletion_failures integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    holder_session_id text COLLATE pg_catalog."C",
    holder_epoch integer,
    endpoint text,
    gone_reason text
);
CREATE TABLE public.savepoints (
    id text NOT NULL COLLATE pg_catalog."C",
    job_id text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    run text NOT NULL,
    place text NOT NULL,
    state character varying(16) NOT NULL,
    content json,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT savepoints_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = 'pruned'::text))),
    CONSTRAINT savepoints_known_state CHECK (((state)::text = ANY ((ARRAY['copying'::character varying, 'verified'::character varying, 'broken'::character varying, 'pruned'::character varying])::text[])))
);
CREATE TABLE public.schema_support (
    oldest_code text NOT NULL
);
CREATE TABLE public.sessions (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    kind character varying(16) NOT NULL,
    name text,
    state character varying(16) NOT NULL,
    profile text NOT NULL,
    conf json NOT NULL,
    catalog text,
    database text,
    jars json NOT NULL,
    files json NOT NULL,
    py_files json NOT NULL,
    idle_seconds double precision,
    ttl_seconds double precision,
    parallelism integer DEFAULT 1 NOT NULL,
    pool boolean DEFAULT false NOT NULL,
    warm boolean DEFAULT false NOT NULL,
    for_jobs boolean DEFAULT false NOT NULL,
    streams integer DEFAULT 0 NOT NULL,
    streams_generation integer DEFAULT 0 NOT NULL,
    epoch integer NOT NULL,
    starts integer DEFAULT 0 NOT NULL,
    fenced_driver json,
    lost json DEFAULT '[]'::json NOT NULL,
    next_ordinal integer NOT NULL,
    launched_by text,
    host json,
    token_hash text,
    results_location text,
    link_process text,
    flight_host text,
    flight_secret text,
    handle json,
    driver json,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    last_used_at timestamp with time zone,
    last_update_time timestamp with time zone,
    closing_since timestamp with time zone,
    lease_until timestamp with time zone,
    failure json,
    CONSTRAINT sessions_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = ANY ((ARRAY['dead'::character varying, 'failed'::character varying])::text[])))),
    CONSTRAINT sessions_known_state CHECK (((state)::text = ANY ((ARRAY['not_started'::character varying, 'starting'::character varying, 'running'::character varying, 'recovering'::character varying, 'closing'::character varying, 'dead'::character varying, 'failed'::character varying])::text[])))
);
CREATE SEQUENCE public.sessions_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sessions_number_seq OWNED BY public.sessions.number;
CREATE TABLE public.snapshots (
    session_id text NOT NULL COLLATE pg_catalog."C",
    snapshot json NOT NULL,
    taken_at timestamp with time zone NOT NULL
);
CREATE TABLE public.statements (
    id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    ordinal integer NOT NULL,
    owner text NOT NULL,
    kind character varying(16) NOT NULL,
    state character varying(16) NOT NULL,
    text text NOT NULL,
    is_query boolean DEFAULT false NOT NULL,
    command text,
    parameters json NOT NULL,
    conf json NOT NULL,
    result_request json NOT NULL,
    timeout_seconds double precision,
    queue_timeout_seconds double precision,
    epoch integer,
    attempts integer NOT NULL,
    may_have_effects boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone NOT NULL,
    waiting_since timestamp with time zone NOT NULL,
    launched_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    cancel_reason character varying(16),
    cancel_forced boolean DEFAULT false NOT NULL,
    cancel_note text,
    ended_at timestamp with time zone,
    progress json,
    atomic boolean,
    note text,
    rows_written bigint,
    failure json,
    awaited_by text,
    CONSTRAINT statements_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = ANY ((ARRAY['success'::character varying, 'failed'::character varying, 'timeout'::character varying, 'cancelled'::character varying])::text[])))),
    CONSTRAINT statements_known_state CHECK (((state)::text = ANY ((ARRAY['waiting'::character varying, 'launched'::character varying, 'running'::character varying, 'cancelling'::character varying, 'success'::character varying, 'failed'::character varying, 'timeout'::character varying, 'cancelled'::character varying])::text[])))
);
CREATE TABLE public.store_catalog (
    id integer NOT NULL,
    kind text NOT NULL,
    keys json NOT NULL,
    place json,
    description text NOT NULL,
    node_id text NOT NULL COLLATE pg_catalog."C",
    recorded_at timestamp with time zone NOT NULL
);
CREATE TABLE public.stream_progress (
    query_id text NOT NULL COLLATE pg_catalog."C",
    slot integer NOT NULL,
    batch bigint NOT NULL,
    progress json NOT NULL
);
CREATE TABLE public.stream_queries (
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    name_key text NOT NULL,
    spec json NOT NULL,
    checkpoint text,
    state character varying(16) NOT NULL,
    wanted character varying(16) NOT NULL,
    generation integer NOT NULL,
    session_id text NOT NULL COLLATE pg_catalog."C",
    statement_id text COLLATE pg_catalog."C",
    attempt integer NOT NULL,
    previous_id text COLLATE pg_catalog."C",
    failures integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    run_id text,
    last_batch bigint,
    last_error json,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    healthy_since timestamp with time zone,
    ended_at timestamp with time zone,
    report_epoch integer,
    report_sequence integer,
    end_reason character varying(16),
    CONSTRAINT stream_queries_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = ANY ((ARRAY['stopped'::character varying, 'failed'::character varying])::text[])))),
    CONSTRAINT stream_queries_known_state CHECK (((state)::text = ANY ((ARRAY['starting'::character varying, 'running'::character varying, 'backing_off'::character varying, 'stopping'::character varying, 'paused'::character varying, 'stopped'::character varying, 'failed'::character varying])::text[])))
);
CREATE TABLE public.table_writes (
    number bigint NOT NULL,
    statement_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    epoch integer NOT NULL,
    identity text NOT NULL,
    location text NOT NULL,
    "table" text,
    overwrite boolean NOT NULL,
    released boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone NOT NULL
);
CREATE SEQUENCE public.table_writes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.table_writes_number_seq OWNED BY public.table_writes.number;
CREATE TABLE public.transactions (
    id text NOT NULL COLLATE pg_catalog."C",
    statement_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    epoch integer NOT NULL,
    state character varying(16) NOT NULL,
    catalog text NOT NULL,
    identity text NOT NULL,
    target text NOT NULL,
    location text,
    staged json NOT NULL,
    staged_epoch integer NOT NULL,
    shares_target boolean DEFAULT false NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    last_error text,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT transactions_ended CHECK (((ended_at IS NOT NULL) = ((state)::text = ANY ((ARRAY['committed'::character varying, 'aborted'::character varying])::text[])))),
    CONSTRAINT transactions_known_state CHECK (((state)::text = ANY ((ARRAY['prepared'::character varying, 'begun'::character varying, 'committing'::character varying, 'committed'::character varying, 'aborting'::character varying, 'aborted'::character varying])::text[])))
);
ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);
ALTER TABLE ONLY public.nodes ALTER COLUMN registration SET DEFAULT nextval('public.nodes_registration_seq'::regclass);
ALTER TABLE ONLY public.sessions ALTER COLUMN number SET DEFAULT nextval('public.sessions_number_seq'::regclass);
ALTER TABLE ONLY public.table_writes ALTER COLUMN number SET DEFAULT nextval('public.table_writes_number_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0001');
INSERT INTO public.catalog_intents VALUES ('ci_01a21da7a1067567a65b6ab0b13e6b95', 'anonymous', 'metastore', 'drop_generation', 'mv_01a21da7a04473bc88b04e62d3223704', '["spark_catalog", "default", "v1"]', 1, NULL, 'pending', '2026-11-27 15:37:34.830524+00', NULL, NULL, NULL, 0, NULL, '2026-11-27 15:37:34.730524+00', NULL);
INSERT INTO public.definitions VALUES ('de_01a21da79f2b7741ba83835c02e11737', 'anonymous', 'adhoc', 'stream', 'clicks', 'clicks', 'CREATE STREAM clicks FROM rate', '2026-11-27 15:37:34.252687+00', NULL);
INSERT INTO public.deployments VALUES ('dp_01a21da78e48776dbd8da7147c057669', 'anonymous', 'deploy', 'applied', '{"state_location": "/srv/headrace/cluster/state", "state_place": "file:/srv/headrace/cluster/state", "jobs": [{"name": "job", "path": "job.yaml", "decision": "start-clean", "reason": "The job is new.", "hint": "", "job_id": null, "generation": 0, "version": 1, "session": "jobs-default", "changed": [], "diff": "", "notes": [], "spec": {"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "aa3bec8e99c97cca46e3face5487ce977370474ea887f0186c9f63c7f22e0551", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}, "restores_from": null, "is_other_lineage": false, "keeps_run": false, "takes_savepoint": true, "path_source": null, "facts": {"is_new": true, "is_running": false, "configuration_changed": true, "query_changed": true, "on_query_change": "reset"}, "query_places": [], "setup_places": []}], "errors": [], "notes": [], "check_ids": ["st_01a21da78e1171feac23a7c93890b170"]}', '2026-11-27 15:37:29.93029+00', '2026-11-27 15:37:30.412487+00', '2026-11-27 15:37:31.215964+00');
INSERT INTO public.deployments VALUES ('dp_01a21da793ce77aeb23f37b8d7a167f3', 'anonymous', 'deploy', 'applied', '{"state_location": "/srv/headrace/cluster/state", "state_place": "file:/srv/headrace/cluster/state", "jobs": [{"name": "job", "path": "job.yaml", "decision": "restart-from-savepoint", "reason": "The configuration has changed (trigger), and the query has not. The job continues from the savepoint with which it is stopped.", "hint": "", "job_id": "jb_01a21da79033777997d48453cc9ef2e9", "generation": 2, "version": 1, "session": "jobs-default", "changed": ["trigger"], "diff": "--- job (deployed)\n+++ job (new)\n@@ -3,3 +3,4 @@\n name: job\n sql: SELECT value FROM numbers\n target-table: files\n+trigger: 2 seconds\n", "notes": [], "spec": {"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\ntrigger: 2 seconds\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false, "trigger": "2 seconds"}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "trigger": "2 seconds", "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "cdf2ea7bba22500f279f52c6275eb7cdff848e50676e2d7175d9bf450202453d", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}, "restores_from": null, "is_other_lineage": false, "keeps_run": false, "takes_savepoint": true, "path_source": null, "facts": {"is_new": false, "is_running": true, "configuration_changed": true, "query_changed": false, "on_query_change": "reset"}, "query_places": [], "setup_places": []}], "errors": [], "notes": [], "check_ids": ["st_01a21da793cb70c99e94def65c4194e9"]}', '2026-11-27 15:37:31.343201+00', '2026-11-27 15:37:31.655641+00', '2026-11-27 15:37:33.38728+00');
INSERT INTO public.event_generations VALUES (1, '7712875826415306825/1', '2026-11-27 15:37:29.646086+00');
INSERT INTO public.events VALUES (1, 1, 738, 'node', 'no_01a21da78d8e7674aebfa3832a77c221', NULL, NULL, 'up', '2026-11-27 15:37:29.761355+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (2, 1, 740, 'session', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 'anonymous', NULL, 'not_started', '2026-11-27 15:37:29.87222+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (3, 1, 740, 'statement', 'st_01a21da78e1171feac23a7c93890b170', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:29.89476+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (4, 1, 740, 'deployment', 'dp_01a21da78e48776dbd8da7147c057669', 'anonymous', NULL, 'checking', '2026-11-27 15:37:29.934543+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (5, 1, 740, 'operation', 'op_01a21da78e517793a8d94566ffe0111a', 'anonymous', NULL, 'pending', '2026-11-27 15:37:29.941491+00', 'anonymous', '{"kind": "plan", "ref": "dp_01a21da78e48776dbd8da7147c057669"}');
INSERT INTO public.events VALUES (6, 1, 741, 'operation', 'op_01a21da78e517793a8d94566ffe0111a', 'anonymous', 'pending', 'claimed', '2026-11-27 15:37:29.980497+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"node": "no_01a21da78d8e7674aebfa3832a77c221", "epoch": 1}');
INSERT INTO public.events VALUES (7, 1, 742, 'session', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 'anonymous', 'not_started', 'starting', '2026-11-27 15:37:30.075574+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"epoch": 1}');
INSERT INTO public.events VALUES (8, 1, 745, 'session', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 'anonymous', 'starting', 'running', '2026-11-27 15:37:30.100873+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{"epoch": 1}');
INSERT INTO public.events VALUES (9, 1, 746, 'statement', 'st_01a21da78e1171feac23a7c93890b170', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:30.162807+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (10, 1, 748, 'statement', 'st_01a21da78e1171feac23a7c93890b170', 'anonymous', 'launched', 'running', '2026-11-27 15:37:30.170203+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (11, 1, 749, 'statement', 'st_01a21da78e1171feac23a7c93890b170', 'anonymous', 'running', 'success', '2026-11-27 15:37:30.184194+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (12, 1, 751, 'deployment', 'dp_01a21da78e48776dbd8da7147c057669', 'anonymous', 'checking', 'planned', '2026-11-27 15:37:30.367016+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (13, 1, 751, 'operation', 'op_01a21da78e517793a8d94566ffe0111a', 'anonymous', 'claimed', 'done', '2026-11-27 15:37:30.36975+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (14, 1, 752, 'deployment', 'dp_01a21da78e48776dbd8da7147c057669', 'anonymous', 'planned', 'applying', '2026-11-27 15:37:30.413175+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (15, 1, 752, 'job', 'jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', NULL, 'deploying', '2026-11-27 15:37:30.425635+00', 'anonymous', '{"name": "job"}');
INSERT INTO public.events VALUES (16, 1, 752, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', NULL, 'planned', '2026-11-27 15:37:30.436666+00', 'anonymous', '{"job": "job", "decision": "start-clean"}');
INSERT INTO public.events VALUES (17, 1, 752, 'operation', 'op_01a21da790457762a992eb4138976bdc', 'anonymous', NULL, 'pending', '2026-11-27 15:37:30.442707+00', 'anonymous', '{"kind": "job_change", "ref": "jc_01a21da7904070efa352f8cae49f2a9e"}');
INSERT INTO public.events VALUES (18, 1, 753, 'operation', 'op_01a21da790457762a992eb4138976bdc', 'anonymous', 'pending', 'claimed', '2026-11-27 15:37:30.457492+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"node": "no_01a21da78d8e7674aebfa3832a77c221", "epoch": 1}');
INSERT INTO public.events VALUES (19, 1, 754, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', 'planned', 'stopped', '2026-11-27 15:37:30.4741+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (20, 1, 755, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', 'stopped', 'verified', '2026-11-27 15:37:30.480924+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (21, 1, 756, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', 'verified', 'restored', '2026-11-27 15:37:30.523014+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (22, 1, 758, 'stream', 'sq_01a21da790db70bb8988071ff0994eb7', 'anonymous', NULL, 'starting', '2026-11-27 15:37:30.598179+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"name": "job.job", "session": "se_01a21da78e0b7546aa4aee5b2d32d1b7"}');
INSERT INTO public.events VALUES (23, 1, 758, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', 'restored', 'started', '2026-11-27 15:37:30.600717+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (24, 1, 760, 'stream', 'sq_01a21da790db70bb8988071ff0994eb7', 'anonymous', 'starting', 'running', '2026-11-27 15:37:30.645156+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{"run": "run"}');
INSERT INTO public.events VALUES (25, 1, 763, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', 'started', 'proven', '2026-11-27 15:37:30.896064+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (26, 1, 764, 'statement', 'st_01a21da7921d7563a1169ad4e2a62ba8', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:30.91178+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (27, 1, 765, 'statement', 'st_01a21da7921d7563a1169ad4e2a62ba8', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:30.917709+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (28, 1, 766, 'statement', 'st_01a21da7921d7563a1169ad4e2a62ba8', 'anonymous', 'launched', 'running', '2026-11-27 15:37:30.92278+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (29, 1, 767, 'statement', 'st_01a21da7921d7563a1169ad4e2a62ba8', 'anonymous', 'running', 'success', '2026-11-27 15:37:30.930108+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (30, 1, 770, 'job', 'jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', 'deploying', 'running', '2026-11-27 15:37:31.204354+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (31, 1, 770, 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'anonymous', 'proven', 'applied', '2026-11-27 15:37:31.210765+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (32, 1, 770, 'deployment', 'dp_01a21da78e48776dbd8da7147c057669', 'anonymous', 'applying', 'applied', '2026-11-27 15:37:31.217491+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (33, 1, 772, 'operation', 'op_01a21da790457762a992eb4138976bdc', 'anonymous', 'claimed', 'done', '2026-11-27 15:37:31.247195+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (34, 1, 773, 'statement', 'st_01a21da793cb70c99e94def65c4194e9', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:31.341914+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (35, 1, 773, 'deployment', 'dp_01a21da793ce77aeb23f37b8d7a167f3', 'anonymous', NULL, 'checking', '2026-11-27 15:37:31.343827+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (36, 1, 773, 'operation', 'op_01a21da793cf773fb7a4bd6f59a841b5', 'anonymous', NULL, 'pending', '2026-11-27 15:37:31.344908+00', 'anonymous', '{"kind": "plan", "ref": "dp_01a21da793ce77aeb23f37b8d7a167f3"}');
INSERT INTO public.events VALUES (37, 1, 775, 'operation', 'op_01a21da793cf773fb7a4bd6f59a841b5', 'anonymous', 'pending', 'claimed', '2026-11-27 15:37:31.356628+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"node": "no_01a21da78d8e7674aebfa3832a77c221", "epoch": 1}');
INSERT INTO public.events VALUES (38, 1, 774, 'statement', 'st_01a21da793cb70c99e94def65c4194e9', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:31.370652+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (39, 1, 776, 'statement', 'st_01a21da793cb70c99e94def65c4194e9', 'anonymous', 'launched', 'running', '2026-11-27 15:37:31.374974+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (40, 1, 777, 'statement', 'st_01a21da793cb70c99e94def65c4194e9', 'anonymous', 'running', 'success', '2026-11-27 15:37:31.381095+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (41, 1, 780, 'deployment', 'dp_01a21da793ce77aeb23f37b8d7a167f3', 'anonymous', 'checking', 'planned', '2026-11-27 15:37:31.62517+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (42, 1, 780, 'operation', 'op_01a21da793cf773fb7a4bd6f59a841b5', 'anonymous', 'claimed', 'done', '2026-11-27 15:37:31.626609+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (43, 1, 782, 'deployment', 'dp_01a21da793ce77aeb23f37b8d7a167f3', 'anonymous', 'planned', 'applying', '2026-11-27 15:37:31.656791+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (44, 1, 782, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', NULL, 'planned', '2026-11-27 15:37:31.66842+00', 'anonymous', '{"job": "job", "decision": "restart-from-savepoint"}');
INSERT INTO public.events VALUES (45, 1, 782, 'operation', 'op_01a21da7951476839af08ec50ac1acfe', 'anonymous', NULL, 'pending', '2026-11-27 15:37:31.669625+00', 'anonymous', '{"kind": "job_change", "ref": "jc_01a21da79512731ca281d8dff8ec176a"}');
INSERT INTO public.events VALUES (46, 1, 782, 'job', 'jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', 'running', 'deploying', '2026-11-27 15:37:31.674836+00', 'anonymous', '{"deployment": "dp_01a21da793ce77aeb23f37b8d7a167f3"}');
INSERT INTO public.events VALUES (55, 1, 792, 'statement', 'st_01a21da7969873fda6b6b22c3e3bdc71', 'anonymous', 'launched', 'running', '2026-11-27 15:37:32.068186+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (60, 1, 798, 'statement', 'st_01a21da798527568b8ea79d0fd04b474', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:32.506639+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (66, 1, 807, 'stream', 'sq_01a21da79977733e9f68eba2d7804dc6', 'anonymous', 'starting', 'running', '2026-11-27 15:37:32.82902+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{"run": "run"}');
INSERT INTO public.events VALUES (67, 1, 810, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'started', 'proven', '2026-11-27 15:37:33.100274+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (72, 1, 817, 'job', 'jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', 'deploying', 'running', '2026-11-27 15:37:33.375088+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (73, 1, 817, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'proven', 'applied', '2026-11-27 15:37:33.381131+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (74, 1, 817, 'deployment', 'dp_01a21da793ce77aeb23f37b8d7a167f3', 'anonymous', 'applying', 'applied', '2026-11-27 15:37:33.387948+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (76, 1, 821, 'node', 'no_01a21da78d8e7674aebfa3832a77c221', NULL, 'up', 'gone', '2026-11-27 15:37:33.649314+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (47, 1, 783, 'operation', 'op_01a21da7951476839af08ec50ac1acfe', 'anonymous', 'pending', 'claimed', '2026-11-27 15:37:31.686783+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"node": "no_01a21da78d8e7674aebfa3832a77c221", "epoch": 1}');
INSERT INTO public.events VALUES (50, 1, 786, 'stream', 'sq_01a21da790db70bb8988071ff0994eb7', 'anonymous', 'stopping', 'stopped', '2026-11-27 15:37:31.751873+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{"code": "job_changed", "reason": "its job was stopped or changed"}');
INSERT INTO public.events VALUES (51, 1, 789, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'stop_wanted', 'stopped', '2026-11-27 15:37:32.043065+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (52, 1, 790, 'savepoint', 'sp_01a21da79695738fb9dd37bcb4665360', 'anonymous', NULL, 'copying', '2026-11-27 15:37:32.055687+00', 'anonymous', '{"job": "jb_01a21da79033777997d48453cc9ef2e9", "version": 1, "place": "/srv/headrace/cluster/state/savepoints/job/1/sp_01a21da79695738fb9dd37bcb4665360"}');
INSERT INTO public.events VALUES (53, 1, 790, 'statement', 'st_01a21da7969873fda6b6b22c3e3bdc71', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:32.058981+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (56, 1, 793, 'statement', 'st_01a21da7969873fda6b6b22c3e3bdc71', 'anonymous', 'running', 'success', '2026-11-27 15:37:32.074964+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (61, 1, 799, 'statement', 'st_01a21da798527568b8ea79d0fd04b474', 'anonymous', 'launched', 'running', '2026-11-27 15:37:32.511125+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (69, 1, 812, 'statement', 'st_01a21da79ab37384a5a484169f68339b', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:33.115103+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (48, 1, 784, 'stream', 'sq_01a21da790db70bb8988071ff0994eb7', 'anonymous', 'running', 'stopping', '2026-11-27 15:37:31.695941+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"code": "job_changed", "reason": "its job was stopped or changed"}');
INSERT INTO public.events VALUES (49, 1, 784, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'planned', 'stop_wanted', '2026-11-27 15:37:31.698544+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (57, 1, 796, 'savepoint', 'sp_01a21da79695738fb9dd37bcb4665360', 'anonymous', 'copying', 'verified', '2026-11-27 15:37:32.464321+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (58, 1, 796, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'stopped', 'verified', '2026-11-27 15:37:32.466091+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (63, 1, 804, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'verified', 'restored', '2026-11-27 15:37:32.770347+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (64, 1, 805, 'stream', 'sq_01a21da79977733e9f68eba2d7804dc6', 'anonymous', NULL, 'starting', '2026-11-27 15:37:32.796149+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"name": "job.job", "session": "se_01a21da78e0b7546aa4aee5b2d32d1b7"}');
INSERT INTO public.events VALUES (65, 1, 805, 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'anonymous', 'restored', 'started', '2026-11-27 15:37:32.79835+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{"job": "job"}');
INSERT INTO public.events VALUES (68, 1, 811, 'statement', 'st_01a21da79ab37384a5a484169f68339b', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:33.109966+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (71, 1, 814, 'statement', 'st_01a21da79ab37384a5a484169f68339b', 'anonymous', 'running', 'success', '2026-11-27 15:37:33.125145+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (54, 1, 791, 'statement', 'st_01a21da7969873fda6b6b22c3e3bdc71', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:32.06404+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (59, 1, 797, 'statement', 'st_01a21da798527568b8ea79d0fd04b474', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:32.500972+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (62, 1, 800, 'statement', 'st_01a21da798527568b8ea79d0fd04b474', 'anonymous', 'running', 'success', '2026-11-27 15:37:32.517355+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (70, 1, 813, 'statement', 'st_01a21da79ab37384a5a484169f68339b', 'anonymous', 'launched', 'running', '2026-11-27 15:37:33.119564+00', 'driver:se_01a21da78e0b7546aa4aee5b2d32d1b7:1', '{}');
INSERT INTO public.events VALUES (75, 1, 819, 'operation', 'op_01a21da7951476839af08ec50ac1acfe', 'anonymous', 'claimed', 'done', '2026-11-27 15:37:33.401875+00', 'no_01a21da78d8e7674aebfa3832a77c221', '{}');
INSERT INTO public.events VALUES (77, 1, 822, 'node', 'no_01a21da79d1574c2b0ee651ad05605ad', NULL, NULL, 'up', '2026-11-27 15:37:33.735575+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{}');
INSERT INTO public.events VALUES (78, 1, 824, 'session', 'se_01a21da79d4672a2868db880918261e9', 'anonymous', NULL, 'not_started', '2026-11-27 15:37:33.80166+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (79, 1, 825, 'session', 'se_01a21da79d4672a2868db880918261e9', 'anonymous', 'not_started', 'starting', '2026-11-27 15:37:33.954593+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{"epoch": 1}');
INSERT INTO public.events VALUES (80, 1, 827, 'session', 'se_01a21da79d4672a2868db880918261e9', 'anonymous', 'starting', 'running', '2026-11-27 15:37:34.016551+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{"epoch": 1}');
INSERT INTO public.events VALUES (81, 1, 828, 'statement', 'st_01a21da79e557512bd5e7292055e1063', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.043984+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (82, 1, 829, 'statement', 'st_01a21da79e557512bd5e7292055e1063', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:34.098137+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{}');
INSERT INTO public.events VALUES (83, 1, 831, 'statement', 'st_01a21da79e557512bd5e7292055e1063', 'anonymous', 'launched', 'running', '2026-11-27 15:37:34.121747+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{}');
INSERT INTO public.events VALUES (84, 1, 832, 'statement', 'st_01a21da79e557512bd5e7292055e1063', 'anonymous', 'running', 'success', '2026-11-27 15:37:34.13034+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{}');
INSERT INTO public.events VALUES (85, 1, 833, 'statement', 'st_01a21da79eb67569a37163923694a2a4', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.136407+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (86, 1, 834, 'statement', 'st_01a21da79eb67569a37163923694a2a4', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:34.141958+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{}');
INSERT INTO public.events VALUES (87, 1, 835, 'statement', 'st_01a21da79eb67569a37163923694a2a4', 'anonymous', 'launched', 'running', '2026-11-27 15:37:34.145145+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{}');
INSERT INTO public.events VALUES (88, 1, 836, 'statement', 'st_01a21da79eb67569a37163923694a2a4', 'anonymous', 'running', 'failed', '2026-11-27 15:37:34.150649+00', 'driver:se_01a21da79d4672a2868db880918261e9:1', '{"failure": {"code": "analysis_error", "message": "The column is unknown."}}');
INSERT INTO public.events VALUES (89, 1, 837, 'statement', 'st_01a21da79ed17441a833a199a48dcae0', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.163881+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (90, 1, 838, 'session', 'se_01a21da79edb75bc89ddb315b0f59ed5', 'anonymous', NULL, 'not_started', '2026-11-27 15:37:34.174912+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (91, 1, 838, 'statement', 'st_01a21da79edf757e9b22e78c40b7baf2', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.177046+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (92, 1, 839, 'session', 'se_01a21da79edb75bc89ddb315b0f59ed5', 'anonymous', 'not_started', 'starting', '2026-11-27 15:37:34.197377+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{"epoch": 1}');
INSERT INTO public.events VALUES (93, 1, 841, 'session', 'se_01a21da79edb75bc89ddb315b0f59ed5', 'anonymous', 'starting', 'running', '2026-11-27 15:37:34.236772+00', 'driver:se_01a21da79edb75bc89ddb315b0f59ed5:1', '{"epoch": 1}');
INSERT INTO public.events VALUES (94, 1, 842, 'statement', 'st_01a21da79edf757e9b22e78c40b7baf2', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:34.243895+00', 'driver:se_01a21da79edb75bc89ddb315b0f59ed5:1', '{}');
INSERT INTO public.events VALUES (95, 1, 844, 'definition', 'de_01a21da79f2b7741ba83835c02e11737', 'anonymous', NULL, 'live', '2026-11-27 15:37:34.2544+00', 'anonymous', '{"kind": "stream", "name": "clicks"}');
INSERT INTO public.events VALUES (96, 1, 844, 'statement', 'st_01a21da79edf757e9b22e78c40b7baf2', 'anonymous', 'launched', 'success', '2026-11-27 15:37:34.256306+00', 'driver:se_01a21da79edb75bc89ddb315b0f59ed5:1', '{}');
INSERT INTO public.events VALUES (97, 1, 846, 'session', 'se_01a21da79f3376a09985210455874044', 'anonymous', NULL, 'not_started', '2026-11-27 15:37:34.26284+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (98, 1, 847, 'session', 'se_01a21da79f3376a09985210455874044', 'anonymous', 'not_started', 'starting', '2026-11-27 15:37:34.289707+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{"epoch": 1}');
INSERT INTO public.events VALUES (99, 1, 848, 'session', 'se_01a21da79f3376a09985210455874044', 'anonymous', 'starting', 'running', '2026-11-27 15:37:34.301801+00', 'driver:se_01a21da79f3376a09985210455874044:1', '{"epoch": 1}');
INSERT INTO public.events VALUES (100, 1, 849, 'statement', 'st_01a21da79f637120a9918892d1576820', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.30949+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (101, 1, 849, 'stream', 'sq_01a21da79f6a75238ad00458e0aeed10', 'anonymous', NULL, 'starting', '2026-11-27 15:37:34.320821+00', 'anonymous', '{"name": "adhoc.q1", "session": "se_01a21da79f3376a09985210455874044"}');
INSERT INTO public.events VALUES (102, 1, 851, 'statement', 'st_01a21da79f637120a9918892d1576820', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:34.348723+00', 'driver:se_01a21da79f3376a09985210455874044:1', '{}');
INSERT INTO public.events VALUES (103, 1, 853, 'statement', 'st_01a21da79f637120a9918892d1576820', 'anonymous', 'launched', 'success', '2026-11-27 15:37:34.368953+00', 'driver:se_01a21da79f3376a09985210455874044:1', '{}');
INSERT INTO public.events VALUES (104, 1, 854, 'stream', 'sq_01a21da79f6a75238ad00458e0aeed10', 'anonymous', 'starting', 'running', '2026-11-27 15:37:34.404351+00', 'driver:se_01a21da79f3376a09985210455874044:1', '{"run": "run-1"}');
INSERT INTO public.events VALUES (105, 1, 856, 'session', 'se_01a21da79fec73e5a7d39a764a027e32', 'anonymous', NULL, 'not_started', '2026-11-27 15:37:34.447779+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (106, 1, 857, 'session', 'se_01a21da79fec73e5a7d39a764a027e32', 'anonymous', 'not_started', 'starting', '2026-11-27 15:37:34.47318+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{"epoch": 1}');
INSERT INTO public.events VALUES (107, 1, 859, 'session', 'se_01a21da79fec73e5a7d39a764a027e32', 'anonymous', 'starting', 'running', '2026-11-27 15:37:34.493775+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{"epoch": 1}');
INSERT INTO public.events VALUES (108, 1, 860, 'statement', 'st_01a21da7a02a74c9b08bb37e3d5f2570', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.510649+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (109, 1, 861, 'statement', 'st_01a21da7a02a74c9b08bb37e3d5f2570', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:34.516472+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{}');
INSERT INTO public.events VALUES (110, 1, 863, 'materialized_view', 'mv_01a21da7a04473bc88b04e62d3223704', 'anonymous', NULL, 'creating', '2026-11-27 15:37:34.536932+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{"path": ["spark_catalog", "default", "v1"]}');
INSERT INTO public.events VALUES (111, 1, 865, 'transaction', 'tx_01a21da7a04b71ffa5711092aa07626b', 'anonymous', NULL, 'prepared', '2026-11-27 15:37:34.547964+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{"statement": "st_01a21da7a02a74c9b08bb37e3d5f2570", "target": "`default`.`__mv_v1_1`"}');
INSERT INTO public.events VALUES (112, 1, 866, 'transaction', 'tx_01a21da7a04b71ffa5711092aa07626b', 'anonymous', 'prepared', 'begun', '2026-11-27 15:37:34.559014+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{}');
INSERT INTO public.events VALUES (113, 1, 867, 'transaction', 'tx_01a21da7a04b71ffa5711092aa07626b', 'anonymous', 'begun', 'committing', '2026-11-27 15:37:34.565082+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{}');
INSERT INTO public.events VALUES (114, 1, 868, 'statement', 'st_01a21da7a02a74c9b08bb37e3d5f2570', 'anonymous', 'launched', 'success', '2026-11-27 15:37:34.574993+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{}');
INSERT INTO public.events VALUES (115, 1, 868, 'transaction', 'tx_01a21da7a04b71ffa5711092aa07626b', 'anonymous', 'committing', 'committed', '2026-11-27 15:37:34.581739+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{}');
INSERT INTO public.events VALUES (116, 1, 868, 'materialized_view', 'mv_01a21da7a04473bc88b04e62d3223704', 'anonymous', 'creating', 'active', '2026-11-27 15:37:34.584528+00', 'driver:se_01a21da79fec73e5a7d39a764a027e32:1', '{"generation": 1, "statement": "st_01a21da7a02a74c9b08bb37e3d5f2570"}');
INSERT INTO public.events VALUES (119, 1, 870, 'session', 'se_01a21da7a0817257af280993cf7983a0', 'anonymous', 'not_started', 'starting', '2026-11-27 15:37:34.630489+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{"epoch": 1}');
INSERT INTO public.events VALUES (120, 1, 872, 'session', 'se_01a21da7a0817257af280993cf7983a0', 'anonymous', 'starting', 'running', '2026-11-27 15:37:34.646322+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{"epoch": 1}');
INSERT INTO public.events VALUES (121, 1, 873, 'statement', 'st_01a21da7a084710bb8e953dc5d518192', 'anonymous', 'waiting', 'launched', '2026-11-27 15:37:34.672817+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{}');
INSERT INTO public.events VALUES (122, 1, 876, 'transaction', 'tx_01a21da7a0e07148be974ec67b0510b7', 'anonymous', NULL, 'prepared', '2026-11-27 15:37:34.693117+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{"statement": "st_01a21da7a084710bb8e953dc5d518192", "target": "`default`.`__mv_v1_2`"}');
INSERT INTO public.events VALUES (125, 1, 879, 'statement', 'st_01a21da7a084710bb8e953dc5d518192', 'anonymous', 'launched', 'success', '2026-11-27 15:37:34.716256+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{}');
INSERT INTO public.events VALUES (126, 1, 879, 'transaction', 'tx_01a21da7a0e07148be974ec67b0510b7', 'anonymous', 'committing', 'committed', '2026-11-27 15:37:34.721631+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{}');
INSERT INTO public.events VALUES (127, 1, 879, 'materialized_view', 'mv_01a21da7a04473bc88b04e62d3223704', 'anonymous', 'active', 'active', '2026-11-27 15:37:34.726388+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{"generation": 2, "statement": "st_01a21da7a084710bb8e953dc5d518192"}');
INSERT INTO public.events VALUES (128, 1, 879, 'catalog_intent', 'ci_01a21da7a1067567a65b6ab0b13e6b95', 'anonymous', NULL, 'pending', '2026-11-27 15:37:34.732139+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{"action": "drop_generation", "view": "mv_01a21da7a04473bc88b04e62d3223704", "generation": 1}');
INSERT INTO public.events VALUES (129, 1, 881, 'node', 'no_01a21da79d1574c2b0ee651ad05605ad', NULL, 'up', 'gone', '2026-11-27 15:37:35.130171+00', 'no_01a21da79d1574c2b0ee651ad05605ad', '{}');
INSERT INTO public.events VALUES (117, 1, 869, 'session', 'se_01a21da7a0817257af280993cf7983a0', 'anonymous', NULL, 'not_started', '2026-11-27 15:37:34.596111+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (118, 1, 869, 'statement', 'st_01a21da7a084710bb8e953dc5d518192', 'anonymous', NULL, 'waiting', '2026-11-27 15:37:34.598521+00', 'anonymous', '{}');
INSERT INTO public.events VALUES (124, 1, 878, 'transaction', 'tx_01a21da7a0e07148be974ec67b0510b7', 'anonymous', 'begun', 'committing', '2026-11-27 15:37:34.707126+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{}');
INSERT INTO public.events VALUES (123, 1, 877, 'transaction', 'tx_01a21da7a0e07148be974ec67b0510b7', 'anonymous', 'prepared', 'begun', '2026-11-27 15:37:34.698799+00', 'driver:se_01a21da7a0817257af280993cf7983a0:1', '{}');
INSERT INTO public.idempotency VALUES ('anonymous', 'retried', '9dc0c10d13e1cfca931cfb043d5b9f7a611305ec31c86551ade988e4de6f881e', 'st_01a21da79ed17441a833a199a48dcae0', '2026-11-27 15:37:34.16548+00');
INSERT INTO public.job_changes VALUES ('jc_01a21da79512731ca281d8dff8ec176a', 'dp_01a21da793ce77aeb23f37b8d7a167f3', 'jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', 'job', 'applied', '{"action": "deploy", "decision": "restart-from-savepoint", "reason": "The configuration has changed (trigger), and the query has not. The job continues from the savepoint with which it is stopped.", "new_version_id": "jv_01a21da7950d774182791a7fc98e4ce7", "new_run": "1/a2342dca5986419982f7684e5415bb5b", "old_version_id": "jv_01a21da7903d7097ac04cfab545ffc86", "old_run": "1/125213f5d2b74381811fae086c10b5ff", "old_query_ids": ["sq_01a21da790db70bb8988071ff0994eb7"], "was": "running", "takes_savepoint": true, "savepoint_id": "sp_01a21da79695738fb9dd37bcb4665360", "restores": true, "restore_id": null, "is_other_lineage": false, "task_id": "st_01a21da79ab37384a5a484169f68339b", "task_attempts": 1, "new_query_ids": ["sq_01a21da79977733e9f68eba2d7804dc6"], "base_batches": {"sq_01a21da79977733e9f68eba2d7804dc6": 0}, "written": []}', NULL, '2026-11-27 15:37:31.667277+00', '2026-11-27 15:37:33.380464+00', '2026-11-27 15:37:33.380464+00');
INSERT INTO public.job_changes VALUES ('jc_01a21da7904070efa352f8cae49f2a9e', 'dp_01a21da78e48776dbd8da7147c057669', 'jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', 'job', 'applied', '{"action": "deploy", "decision": "start-clean", "reason": "The job is new.", "new_version_id": "jv_01a21da7903d7097ac04cfab545ffc86", "new_run": "1/125213f5d2b74381811fae086c10b5ff", "old_version_id": null, "old_run": null, "old_query_ids": [], "was": null, "takes_savepoint": false, "savepoint_id": null, "restores": false, "restore_id": null, "is_other_lineage": false, "task_id": "st_01a21da7921d7563a1169ad4e2a62ba8", "task_attempts": 1, "new_query_ids": ["sq_01a21da790db70bb8988071ff0994eb7"], "base_batches": {"sq_01a21da790db70bb8988071ff0994eb7": null}, "written": []}', NULL, '2026-11-27 15:37:30.433261+00', '2026-11-27 15:37:31.210046+00', '2026-11-27 15:37:31.210046+00');
INSERT INTO public.job_tasks VALUES ('st_01a21da78e1171feac23a7c93890b170', '{"kind": "check", "state_location": "/srv/headrace/cluster/state", "jobs": [{"name": "job", "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}}], "checkpoint": null, "savepoints": []}]}', '{"kind": "check", "jobs": [{"name": "job", "problems": [], "notes": [], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}, "used_logs": [], "found_checkpoint": false, "found_savepoint": null}], "location_problem": null}');
INSERT INTO public.job_tasks VALUES ('st_01a21da7921d7563a1169ad4e2a62ba8', '{"kind": "manifests", "texts": {"/srv/headrace/cluster/state/manifests/job.yaml": "description: A job\nmeta:\n  query-create-timestamp: ''2026-11-27 15:37:30''\n  query-id: e4cc7568-3241-446c-99e0-f150ea1c9721\n  query-version: 1\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\n"}, "deleted": []}', '{"kind": "done"}');
INSERT INTO public.job_tasks VALUES ('st_01a21da793cb70c99e94def65c4194e9', '{"kind": "check", "state_location": "/srv/headrace/cluster/state", "jobs": [{"name": "job", "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}}], "checkpoint": null, "savepoints": []}]}', '{"kind": "check", "jobs": [{"name": "job", "problems": [], "notes": [], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}, "used_logs": [], "found_checkpoint": false, "found_savepoint": null}], "location_problem": null}');
INSERT INTO public.job_tasks VALUES ('st_01a21da7969873fda6b6b22c3e3bdc71', '{"kind": "savepoint", "checkpoint": "/srv/headrace/cluster/state/checkpoints/job/1/125213f5d2b74381811fae086c10b5ff", "queries": [""], "savepoint": "/srv/headrace/cluster/state/savepoints/job/1/sp_01a21da79695738fb9dd37bcb4665360"}', '{"kind": "savepoint", "content": {"files": 1, "bytes": 1, "checksum": "c", "spark_version": "4.1.3", "is_clean": true, "last_batches": {"": 0}}}');
INSERT INTO public.job_tasks VALUES ('st_01a21da798527568b8ea79d0fd04b474', '{"kind": "restore", "savepoint": "/srv/headrace/cluster/state/savepoints/job/1/sp_01a21da79695738fb9dd37bcb4665360", "checkpoint": "/srv/headrace/cluster/state/checkpoints/job/1/a2342dca5986419982f7684e5415bb5b"}', '{"kind": "done"}');
INSERT INTO public.job_tasks VALUES ('st_01a21da79ab37384a5a484169f68339b', '{"kind": "manifests", "texts": {"/srv/headrace/cluster/state/manifests/job.yaml": "description: A job\nmeta:\n  query-create-timestamp: ''2026-11-27 15:37:30''\n  query-id: e4cc7568-3241-446c-99e0-f150ea1c9721\n  query-version: 1\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\ntrigger: 2 seconds\n"}, "deleted": []}', '{"kind": "done"}');
INSERT INTO public.job_versions VALUES ('jv_01a21da7903d7097ac04cfab545ffc86', 'jb_01a21da79033777997d48453cc9ef2e9', 1, 1, 'e4cc7568-3241-446c-99e0-f150ea1c9721', '2026-11-27 15:37:30.431398+00', '{"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "aa3bec8e99c97cca46e3face5487ce977370474ea887f0186c9f63c7f22e0551", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/cluster/jobs/streams/jobs-anonymous/job-cc9ef2e9/1", "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}', 'start-clean', 'The job is new.', NULL, '1/125213f5d2b74381811fae086c10b5ff', 'deployed', 'dp_01a21da78e48776dbd8da7147c057669', '2026-11-27 15:37:30.431398+00');
INSERT INTO public.job_versions VALUES ('jv_01a21da7950d774182791a7fc98e4ce7', 'jb_01a21da79033777997d48453cc9ef2e9', 1, 2, 'e4cc7568-3241-446c-99e0-f150ea1c9721', '2026-11-27 15:37:30.431398+00', '{"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\ntrigger: 2 seconds\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false, "trigger": "2 seconds"}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "trigger": "2 seconds", "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "cdf2ea7bba22500f279f52c6275eb7cdff848e50676e2d7175d9bf450202453d", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/cluster/jobs/streams/jobs-anonymous/job-cc9ef2e9/1", "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}', 'restart-from-savepoint', 'The configuration has changed (trigger), and the query has not. The job continues from the savepoint with which it is stopped.', 'sp_01a21da79695738fb9dd37bcb4665360', '1/a2342dca5986419982f7684e5415bb5b', 'deployed', 'dp_01a21da793ce77aeb23f37b8d7a167f3', '2026-11-27 15:37:31.66328+00');
INSERT INTO public.jobs VALUES ('jb_01a21da79033777997d48453cc9ef2e9', 'anonymous', 'job', 'job', 'running', 4, '/srv/headrace/cluster/state', 'file:/srv/headrace/cluster/state', 'jv_01a21da7950d774182791a7fc98e4ce7', '1/a2342dca5986419982f7684e5415bb5b', NULL, NULL, '2026-11-27 15:37:30.424138+00', '2026-11-27 15:37:33.37445+00', NULL);
INSERT INTO public.limit_locks VALUES ('sessions');
INSERT INTO public.limit_locks VALUES ('waiting');
INSERT INTO public.limit_locks VALUES ('running');
INSERT INTO public.materialized_views VALUES ('mv_01a21da7a04473bc88b04e62d3223704', 'anonymous', 'v1', 'v1', 'metastore', '`default`.`v1`', 'CREATE MATERIALIZED VIEW v1  AS SELECT 1 AS a', '{"path": ["spark_catalog", "default", "v1"], "storage": "generations", "scope": {"catalog": "spark_catalog", "namespace": ["default"]}}', 'st_01a21da7a084710bb8e953dc5d518192', 'st_01a21da7a084710bb8e953dc5d518192', 1, 2, '2026-11-27 15:37:34.686707+00', 2, '2026-11-27 15:37:34.686707+00', NULL, '2026-11-27 15:37:34.534912+00', NULL);
INSERT INTO public.nodes VALUES (1, 'no_01a21da78d8e7674aebfa3832a77c221', 'http://127.0.0.1:42839', '0.1.0', 'gone', '["default"]', '["local"]', '2026-11-27 15:37:29.758966+00', '2026-11-27 15:37:29.775368+00', '2026-11-27 15:47:29.775368+00', '2026-11-27 15:37:33.648551+00', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', 1, NULL, NULL);
INSERT INTO public.nodes VALUES (2, 'no_01a21da79d1574c2b0ee651ad05605ad', 'http://127.0.0.1:36691', '0.1.0', 'gone', '["default"]', '["local"]', '2026-11-27 15:37:33.733853+00', '2026-11-27 15:37:33.739039+00', '2026-11-27 15:47:33.73904+00', '2026-11-27 15:37:35.129619+00', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', 1, NULL, NULL);
INSERT INTO public.operations VALUES ('op_01a21da78e517793a8d94566ffe0111a', 'plan', 'dp_01a21da78e48776dbd8da7147c057669', 'done', 'no_01a21da78d8e7674aebfa3832a77c221', 1, NULL, '2026-11-27 15:37:29.93897+00', '2026-11-27 15:37:30.368658+00');
INSERT INTO public.operations VALUES ('op_01a21da790457762a992eb4138976bdc', 'job_change', 'jc_01a21da7904070efa352f8cae49f2a9e', 'done', 'no_01a21da78d8e7674aebfa3832a77c221', 1, NULL, '2026-11-27 15:37:30.440751+00', '2026-11-27 15:37:31.245686+00');
INSERT INTO public.operations VALUES ('op_01a21da793cf773fb7a4bd6f59a841b5', 'plan', 'dp_01a21da793ce77aeb23f37b8d7a167f3', 'done', 'no_01a21da78d8e7674aebfa3832a77c221', 1, NULL, '2026-11-27 15:37:31.344318+00', '2026-11-27 15:37:31.625908+00');
INSERT INTO public.operations VALUES ('op_01a21da7951476839af08ec50ac1acfe', 'job_change', 'jc_01a21da79512731ca281d8dff8ec176a', 'done', 'no_01a21da78d8e7674aebfa3832a77c221', 1, NULL, '2026-11-27 15:37:31.668968+00', '2026-11-27 15:37:33.401239+00');
INSERT INTO public.results VALUES ('st_01a21da78e1171feac23a7c93890b170', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:30.183452+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da7921d7563a1169ad4e2a62ba8', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:30.929545+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da793cb70c99e94def65c4194e9', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:31.380508+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da7969873fda6b6b22c3e3bdc71', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:32.07329+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da798527568b8ea79d0fd04b474', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:32.516897+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da79ab37384a5a484169f68339b', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:33.12461+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da79e557512bd5e7292055e1063', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:34.129567+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da79edf757e9b22e78c40b7baf2', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:34.255607+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da79f637120a9918892d1576820', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:34.368296+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da7a02a74c9b08bb37e3d5f2570', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:34.574504+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.results VALUES ('st_01a21da7a084710bb8e953dc5d518192', 'anonymous', 'inline', '{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}', 1, 4, false, 1, NULL, '\xffffffff780000001000000000000a000c000600050008000a000000000104000c000000080008000000040008000000040000000100000014000000100014000800060007000c00000010001000000000000102100000001c0000000400000000000000020000005f30000008000c0008000700080000000000000120000000ffffffff8800000014000000000000000c0016000600050008000c000c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000ffffffff00000000', '2026-11-28 15:37:34.715782+00', NULL, 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.savepoints VALUES ('sp_01a21da79695738fb9dd37bcb4665360', 'jb_01a21da79033777997d48453cc9ef2e9', 1, '1/125213f5d2b74381811fae086c10b5ff', '/srv/headrace/cluster/state/savepoints/job/1/sp_01a21da79695738fb9dd37bcb4665360', 'verified', '{"files": 1, "bytes": 1, "checksum": "c", "spark_version": "4.1.3", "is_clean": true, "last_batches": {"": 0}}', '2026-11-27 15:37:32.053948+00', NULL);
INSERT INTO public.schema_support VALUES ('0001');
INSERT INTO public.sessions VALUES (1, 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 'anonymous', 'interactive', 'jobs-default', 'running', 'default', '{}', NULL, NULL, '[]', '[]', '[]', 1800, NULL, 4, false, false, true, 1, 3, 1, 0, NULL, '[]', 6, 'no_01a21da78d8e7674aebfa3832a77c221', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', 'f5cd1bf3a6e144e8e167471b8feab155a56083d95f405880498af8e05374fe59', '/srv/headrace/cluster/jobs/results', '6b4e61c246714befb2afdf15adcd94d8', '127.0.0.1', 'POt9KA1pzhRvZnEoy22x16zLpmZmPhSwy0gEpyIvy1o', '{"backend": "local", "name": "headrace-se_01a21da78e0b7546aa4aee5b2d32d1b7-1"}', '{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}', '2026-11-27 15:37:29.869699+00', '2026-11-27 15:37:30.099165+00', NULL, '2026-11-27 15:37:33.108414+00', '2026-11-27 15:37:33.43148+00', NULL, '2026-11-27 15:47:33.43148+00', NULL);
INSERT INTO public.sessions VALUES (2, 'se_01a21da79d4672a2868db880918261e9', 'anonymous', 'interactive', 'etl', 'running', 'default', '{"spark.sql.ansi.enabled": "true"}', NULL, NULL, '[]', '[]', '[]', 1800, NULL, 1, false, false, false, 0, 0, 1, 0, NULL, '[]', 3, 'no_01a21da79d1574c2b0ee651ad05605ad', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', '13b4c7ece71917c74aafebe6244728dc46766ffbde1bc61277403419e1b2d4ed', '/srv/headrace/cluster/node/results', 'ab6cda1c95c94f6892532acab4969718', '127.0.0.1', 'KEt9W61Hfx1_AuTRsEODEJ_OR7uOSQmQNqLxh7BBo9U', '{"backend": "local", "name": "headrace-se_01a21da79d4672a2868db880918261e9-1"}', '{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}', '2026-11-27 15:37:33.799223+00', '2026-11-27 15:37:34.015386+00', NULL, '2026-11-27 15:37:34.162047+00', '2026-11-27 15:37:34.015386+00', NULL, '2026-11-27 15:47:34.015387+00', NULL);
INSERT INTO public.sessions VALUES (4, 'se_01a21da79f3376a09985210455874044', 'anonymous', 'streaming', NULL, 'running', 'default', '{}', NULL, NULL, '[]', '[]', '[]', 1800, NULL, 1, false, false, false, 1, 2, 1, 0, NULL, '[]', 1, 'no_01a21da79d1574c2b0ee651ad05605ad', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', '262340b83900dcef40132696ccf621c80f643af93c8a00ae8f44a4b35bd30686', '/srv/headrace/cluster/node/results', 'ab6cda1c95c94f6892532acab4969718', '127.0.0.1', 'VlD46U5F8wuhcS1GXFW-YDbx1E0WyYwurHzyomm78TI', '{"backend": "local", "name": "headrace-se_01a21da79f3376a09985210455874044-1"}', '{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}', '2026-11-27 15:37:34.262171+00', '2026-11-27 15:37:34.301153+00', NULL, '2026-11-27 15:37:34.307907+00', '2026-11-27 15:37:34.425826+00', NULL, '2026-11-27 15:47:34.425826+00', NULL);
INSERT INTO public.sessions VALUES (3, 'se_01a21da79edb75bc89ddb315b0f59ed5', 'anonymous', 'interactive', NULL, 'running', 'default', '{}', NULL, NULL, '[]', '[]', '[]', 300, NULL, 8, true, false, false, 0, 0, 1, 0, NULL, '[]', 1, 'no_01a21da79d1574c2b0ee651ad05605ad', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', 'b1ee7730f68ac72b1cb3433d4b5624f8dcb484672bb0a82e4f6511b782376bb5', '/srv/headrace/cluster/node/results', 'ab6cda1c95c94f6892532acab4969718', '127.0.0.1', 'fF2OdL0hL8wbx7lnpl7_TyCg1JJxtWttkxP3L4mNWx4', '{"backend": "local", "name": "headrace-se_01a21da79edb75bc89ddb315b0f59ed5-1"}', '{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}', '2026-11-27 15:37:34.174119+00', '2026-11-27 15:37:34.236166+00', NULL, '2026-11-27 15:37:34.175466+00', '2026-11-27 15:37:34.236167+00', NULL, '2026-11-27 15:47:34.236167+00', NULL);
INSERT INTO public.sessions VALUES (5, 'se_01a21da79fec73e5a7d39a764a027e32', 'anonymous', 'interactive', NULL, 'running', 'default', '{}', NULL, NULL, '[]', '[]', '[]', 1800, NULL, 1, false, false, false, 0, 0, 1, 0, NULL, '[]', 1, 'no_01a21da79d1574c2b0ee651ad05605ad', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', '4ac0f8b544bc0e75f6010851d88760a5fc765a5530704b0d44840558d638edd5', '/srv/headrace/cluster/node/results', 'ab6cda1c95c94f6892532acab4969718', '127.0.0.1', '6n3vB3C8hKKFWGa0npIHCLZ9WW2lQqzMX2J00zippyE', '{"backend": "local", "name": "headrace-se_01a21da79fec73e5a7d39a764a027e32-1"}', '{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}', '2026-11-27 15:37:34.447099+00', '2026-11-27 15:37:34.492006+00', NULL, '2026-11-27 15:37:34.507372+00', '2026-11-27 15:37:34.492006+00', NULL, '2026-11-27 15:47:34.492006+00', NULL);
INSERT INTO public.sessions VALUES (6, 'se_01a21da7a0817257af280993cf7983a0', 'anonymous', 'batch', NULL, 'running', 'default', '{}', NULL, NULL, '[]', '[]', '[]', 60, NULL, 1, false, false, false, 0, 0, 1, 0, NULL, '[]', 1, 'no_01a21da79d1574c2b0ee651ad05605ad', '{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}', '187d6c549b6cceed513402ae87f674855a5bf3f9db9934628e85d93e1929c6eb', '/srv/headrace/cluster/node/results', 'ab6cda1c95c94f6892532acab4969718', '127.0.0.1', 'g1csCIZOpBlhkGn4cjdAAK8Yd5ijyq3rLutgM8vNXlU', '{"backend": "local", "name": "headrace-se_01a21da7a0817257af280993cf7983a0-1"}', '{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}', '2026-11-27 15:37:34.595523+00', '2026-11-27 15:37:34.645639+00', NULL, '2026-11-27 15:37:34.59676+00', '2026-11-27 15:37:34.64564+00', NULL, '2026-11-27 15:47:34.64564+00', NULL);
INSERT INTO public.statements VALUES ('st_01a21da78e1171feac23a7c93890b170', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 0, 'anonymous', 'interactive', 'success', 'JOB TASK: check job', true, 'JOB TASK', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:29.879906+00', '2026-11-27 15:37:29.879906+00', '2026-11-27 15:37:30.161066+00', '2026-11-27 15:37:30.170203+00', NULL, NULL, false, NULL, '2026-11-27 15:37:30.181413+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da7921d7563a1169ad4e2a62ba8', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 1, 'anonymous', 'interactive', 'success', 'JOB TASK: write the manifest of job', true, 'JOB WRITE', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:30.910809+00', '2026-11-27 15:37:30.910809+00', '2026-11-27 15:37:30.916659+00', '2026-11-27 15:37:30.92278+00', NULL, NULL, false, NULL, '2026-11-27 15:37:30.928897+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da793cb70c99e94def65c4194e9', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 2, 'anonymous', 'interactive', 'success', 'JOB TASK: check job', true, 'JOB TASK', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:31.340867+00', '2026-11-27 15:37:31.340867+00', '2026-11-27 15:37:31.367236+00', '2026-11-27 15:37:31.374974+00', NULL, NULL, false, NULL, '2026-11-27 15:37:31.379865+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da7969873fda6b6b22c3e3bdc71', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 3, 'anonymous', 'interactive', 'success', 'JOB TASK: copy a savepoint of job', true, 'JOB TASK', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:32.058007+00', '2026-11-27 15:37:32.058007+00', '2026-11-27 15:37:32.063201+00', '2026-11-27 15:37:32.068186+00', NULL, NULL, false, NULL, '2026-11-27 15:37:32.072751+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da798527568b8ea79d0fd04b474', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 4, 'anonymous', 'interactive', 'success', 'JOB TASK: restore a savepoint of job', true, 'JOB WRITE', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:32.500019+00', '2026-11-27 15:37:32.500019+00', '2026-11-27 15:37:32.505593+00', '2026-11-27 15:37:32.511125+00', NULL, NULL, false, NULL, '2026-11-27 15:37:32.516259+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da79ab37384a5a484169f68339b', 'se_01a21da78e0b7546aa4aee5b2d32d1b7', 5, 'anonymous', 'interactive', 'success', 'JOB TASK: write the manifest of job', true, 'JOB WRITE', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:33.109047+00', '2026-11-27 15:37:33.109048+00', '2026-11-27 15:37:33.113902+00', '2026-11-27 15:37:33.119564+00', NULL, NULL, false, NULL, '2026-11-27 15:37:33.124027+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da79e557512bd5e7292055e1063', 'se_01a21da79d4672a2868db880918261e9', 0, 'anonymous', 'interactive', 'success', 'SELECT 1', true, NULL, '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:34.041795+00', '2026-11-27 15:37:34.041795+00', '2026-11-27 15:37:34.094154+00', '2026-11-27 15:37:34.121747+00', NULL, NULL, false, NULL, '2026-11-27 15:37:34.127836+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da79eb67569a37163923694a2a4', 'se_01a21da79d4672a2868db880918261e9', 1, 'anonymous', 'interactive', 'failed', 'SELECT nothing', true, NULL, '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:34.135327+00', '2026-11-27 15:37:34.135327+00', '2026-11-27 15:37:34.141068+00', '2026-11-27 15:37:34.145145+00', NULL, NULL, false, NULL, '2026-11-27 15:37:34.149828+00', NULL, NULL, NULL, NULL, '{"code": "analysis_error", "message": "The column is unknown.", "condition": null, "sqlstate": null, "line": null, "column": null, "trace": null}', NULL);
INSERT INTO public.statements VALUES ('st_01a21da79ed17441a833a199a48dcae0', 'se_01a21da79d4672a2868db880918261e9', 2, 'anonymous', 'interactive', 'waiting', 'SELECT :a', true, NULL, '[{"value": "1", "name": "a", "type": null}]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, NULL, 0, true, '2026-11-27 15:37:34.162803+00', '2026-11-27 15:37:34.162803+00', NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da79edf757e9b22e78c40b7baf2', 'se_01a21da79edb75bc89ddb315b0f59ed5', 0, 'anonymous', 'interactive', 'success', 'CREATE STREAM clicks FROM rate', false, 'CREATE STREAM', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:34.176048+00', '2026-11-27 15:37:34.176048+00', '2026-11-27 15:37:34.242929+00', '2026-11-27 15:37:34.254987+00', NULL, NULL, false, NULL, '2026-11-27 15:37:34.254988+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da79f637120a9918892d1576820', 'se_01a21da79f3376a09985210455874044', 0, 'anonymous', 'streaming', 'success', 'SAVE STREAM t TO noop IDENTIFIED BY q1 ', false, 'SAVE STREAM', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:34.308547+00', '2026-11-27 15:37:34.308547+00', '2026-11-27 15:37:34.343632+00', '2026-11-27 15:37:34.367633+00', NULL, NULL, false, NULL, '2026-11-27 15:37:34.367634+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da7a02a74c9b08bb37e3d5f2570', 'se_01a21da79fec73e5a7d39a764a027e32', 0, 'anonymous', 'interactive', 'success', 'CREATE MATERIALIZED VIEW v1  AS SELECT 1 AS a', false, 'CREATE MATERIALIZED VIEW', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:34.509566+00', '2026-11-27 15:37:34.509566+00', '2026-11-27 15:37:34.515666+00', '2026-11-27 15:37:34.573795+00', NULL, NULL, false, NULL, '2026-11-27 15:37:34.573795+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.statements VALUES ('st_01a21da7a084710bb8e953dc5d518192', 'se_01a21da7a0817257af280993cf7983a0', 0, 'anonymous', 'batch', 'success', 'REFRESH MATERIALIZED VIEW v1', false, 'REFRESH MATERIALIZED VIEW', '[]', '{}', '{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}', NULL, NULL, 1, 1, true, '2026-11-27 15:37:34.597482+00', '2026-11-27 15:37:34.597483+00', '2026-11-27 15:37:34.671861+00', '2026-11-27 15:37:34.71514+00', NULL, NULL, false, NULL, '2026-11-27 15:37:34.71514+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.store_catalog VALUES (1, 'memory', '{}', NULL, 'the memory of each driver', 'no_01a21da78d8e7674aebfa3832a77c221', '2026-11-27 15:37:29.756302+00');
INSERT INTO public.stream_progress VALUES ('sq_01a21da79f6a75238ad00458e0aeed10', 7, 7, '{"batch": 7, "at": "2026-11-22T00:00:00.000Z", "input_rows": 10, "input_rate": 1.0, "process_rate": 2.0, "milliseconds": 5, "watermark": null, "state_rows": 0, "state_bytes": 0, "lag": {}}');
INSERT INTO public.stream_queries VALUES ('sq_01a21da790db70bb8988071ff0994eb7', 'anonymous', 'job', 'job', 'job', '{"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/cluster/jobs/streams/jobs-anonymous/job-cc9ef2e9/1", "checkpoint": "/srv/headrace/cluster/state/checkpoints/job/1/125213f5d2b74381811fae086c10b5ff", "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}', 'file:/srv/headrace/cluster/state/checkpoints/job/1/125213f5d2b74381811fae086c10b5ff', 'stopped', 'stopped', 2, 'se_01a21da78e0b7546aa4aee5b2d32d1b7', NULL, 1, NULL, 0, NULL, 'run', 0, NULL, '2026-11-27 15:37:30.596344+00', '2026-11-27 15:37:30.643899+00', '2026-11-27 15:37:30.6439+00', '2026-11-27 15:37:31.747764+00', NULL, NULL, 'job_changed');
INSERT INTO public.stream_queries VALUES ('sq_01a21da79977733e9f68eba2d7804dc6', 'anonymous', 'job', 'job', 'job', '{"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/cluster/jobs/streams/jobs-anonymous/job-cc9ef2e9/1", "checkpoint": "/srv/headrace/cluster/state/checkpoints/job/1/a2342dca5986419982f7684e5415bb5b", "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}', 'file:/srv/headrace/cluster/state/checkpoints/job/1/a2342dca5986419982f7684e5415bb5b', 'running', 'running', 1, 'se_01a21da78e0b7546aa4aee5b2d32d1b7', NULL, 1, NULL, 0, NULL, 'run', 1, NULL, '2026-11-27 15:37:32.795521+00', '2026-11-27 15:37:32.827978+00', '2026-11-27 15:37:32.827978+00', NULL, NULL, NULL, NULL);
INSERT INTO public.stream_queries VALUES ('sq_01a21da79f6a75238ad00458e0aeed10', 'anonymous', 'adhoc', 'q1', 'q1', '{"text": "SAVE STREAM t TO noop IDENTIFIED BY q1 ", "definitions": [], "sink": "noop", "path": null, "checkpoint": "/srv/headrace/cluster/node/checkpoints/adhoc-anonymous/q1", "views": [], "conf": {}, "scope": null, "view": null, "rows": null}', 'file:/srv/headrace/cluster/node/checkpoints/adhoc-anonymous/q1', 'running', 'running', 1, 'se_01a21da79f3376a09985210455874044', 'st_01a21da79f637120a9918892d1576820', 1, NULL, 0, NULL, 'run-1', 7, NULL, '2026-11-27 15:37:34.31949+00', '2026-11-27 15:37:34.401673+00', '2026-11-27 15:37:34.401673+00', NULL, NULL, NULL, NULL);
INSERT INTO public.transactions VALUES ('tx_01a21da7a04b71ffa5711092aa07626b', 'st_01a21da7a02a74c9b08bb37e3d5f2570', 'se_01a21da79fec73e5a7d39a764a027e32', 1, 'committed', 'spark_catalog', 'metastore', '`default`.`__mv_v1_1`', NULL, '{"kind": "session", "catalog": "spark_catalog", "identity": "metastore", "target": "`default`.`__mv_v1_1`", "location": null, "place": null, "record": {}, "commits_natively": false, "shares_target": false, "ignore_if_exists": false}', 1, false, 0, NULL, NULL, '2026-11-27 15:37:34.545531+00', '2026-11-27 15:37:34.580959+00');
INSERT INTO public.transactions VALUES ('tx_01a21da7a0e07148be974ec67b0510b7', 'st_01a21da7a084710bb8e953dc5d518192', 'se_01a21da7a0817257af280993cf7983a0', 1, 'committed', 'spark_catalog', 'metastore', '`default`.`__mv_v1_2`', NULL, '{"kind": "session", "catalog": "spark_catalog", "identity": "metastore", "target": "`default`.`__mv_v1_2`", "location": null, "place": null, "record": {}, "commits_natively": false, "shares_target": false, "ignore_if_exists": false}', 1, false, 0, NULL, NULL, '2026-11-27 15:37:34.692306+00', '2026-11-27 15:37:34.720581+00');
SELECT pg_catalog.setval('public.events_id_seq', 129, true);
SELECT pg_catalog.setval('public.nodes_registration_seq', 2, true);
SELECT pg_catalog.setval('public.sessions_number_seq', 6, true);
SELECT pg_catalog.setval('public.table_writes_number_seq', 1, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.backend_budgets
    ADD CONSTRAINT backend_budgets_key PRIMARY KEY (backend);
ALTER TABLE ONLY public.catalog_intents
    ADD CONSTRAINT catalog_intents_key PRIMARY KEY (id);
ALTER TABLE ONLY public.definitions
    ADD CONSTRAINT definitions_key PRIMARY KEY (id);
ALTER TABLE ONLY public.deployments
    ADD CONSTRAINT deployments_key PRIMARY KEY (id);
ALTER TABLE ONLY public.event_generations
    ADD CONSTRAINT event_generations_key PRIMARY KEY (generation);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_key PRIMARY KEY (id);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_key PRIMARY KEY (owner, key);
ALTER TABLE ONLY public.job_changes
    ADD CONSTRAINT job_changes_key PRIMARY KEY (id);
ALTER TABLE ONLY public.job_tasks
    ADD CONSTRAINT job_tasks_key PRIMARY KEY (statement_id);
ALTER TABLE ONLY public.job_versions
    ADD CONSTRAINT job_versions_key PRIMARY KEY (id);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_key PRIMARY KEY (id);
ALTER TABLE ONLY public.limit_locks
    ADD CONSTRAINT limit_locks_key PRIMARY KEY (counted);
ALTER TABLE ONLY public.materialized_views
    ADD CONSTRAINT materialized_views_key PRIMARY KEY (id);
ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_key PRIMARY KEY (registration);
ALTER TABLE ONLY public.operations
    ADD CONSTRAINT operations_key PRIMARY KEY (id);
ALTER TABLE ONLY public.pending_hook_calls
    ADD CONSTRAINT pending_hook_calls_key PRIMARY KEY (statement_id);
ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_key PRIMARY KEY (statement_id);
ALTER TABLE ONLY public.savepoints
    ADD CONSTRAINT savepoints_key PRIMARY KEY (id);
ALTER TABLE ONLY public.schema_support
    ADD CONSTRAINT schema_support_key PRIMARY KEY (oldest_code);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_id_unique UNIQUE (id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_key PRIMARY KEY (number);
ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_key PRIMARY KEY (session_id);
ALTER TABLE ONLY public.statements
    ADD CONSTRAINT statements_key PRIMARY KEY (id);
ALTER TABLE ONLY public.statements
    ADD CONSTRAINT statements_session_id_ordinal_unique UNIQUE (session_id, ordinal);
ALTER TABLE ONLY public.store_catalog
    ADD CONSTRAINT store_catalog_key PRIMARY KEY (id);
ALTER TABLE ONLY public.stream_progress
    ADD CONSTRAINT stream_progress_key PRIMARY KEY (query_id, slot);
ALTER TABLE ONLY public.stream_queries
    ADD CONSTRAINT stream_queries_key PRIMARY KEY (id);
ALTER TABLE ONLY public.table_writes
    ADD CONSTRAINT table_writes_key PRIMARY KEY (number);
ALTER TABLE ONLY public.transactions
    ADD CONSTRAINT transactions_key PRIMARY KEY (id);
CREATE INDEX catalog_intents_due ON public.catalog_intents USING btree (due_at) WHERE (ended_at IS NULL);
CREATE INDEX catalog_intents_ended ON public.catalog_intents USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX definitions_ended ON public.definitions USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE UNIQUE INDEX definitions_live_name ON public.definitions USING btree (owner, scope, kind, name_key) WHERE (ended_at IS NULL);
CREATE INDEX deployments_by_owner ON public.deployments USING btree (owner, id);
CREATE INDEX deployments_ended ON public.deployments USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX deployments_live ON public.deployments USING btree (id) WHERE (ended_at IS NULL);
CREATE INDEX events_by_entity ON public.events USING btree (entity_id, generation, xid, id);
CREATE INDEX events_of_nodes ON public.events USING btree (at) WHERE (entity = 'node'::text);
CREATE INDEX events_order ON public.events USING btree (generation, xid, id);
CREATE INDEX idempotency_age ON public.idempotency USING btree (created_at);
CREATE INDEX job_changes_by_deployment ON public.job_changes USING btree (deployment_id, id);
CREATE INDEX job_changes_by_job ON public.job_changes USING btree (job_id, id);
CREATE UNIQUE INDEX job_versions_by_job ON public.job_versions USING btree (job_id, revision);
CREATE INDEX jobs_ended ON public.jobs USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE UNIQUE INDEX jobs_live_name ON public.jobs USING btree (owner, name_key) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX jobs_live_state_place ON public.jobs USING btree (state_place, name_key) WHERE (ended_at IS NULL);
CREATE INDEX materialized_views_by_target ON public.materialized_views USING btree (identity, target, generation);
CREATE INDEX materialized_views_by_writer ON public.materialized_views USING btree (writer_id);
CREATE INDEX materialized_views_ended ON public.materialized_views USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX materialized_views_live_name ON public.materialized_views USING btree (owner, name_key) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX materialized_views_live_target ON public.materialized_views USING btree (identity, target) WHERE (ended_at IS NULL);
CREATE INDEX nodes_by_id ON public.nodes USING btree (id, registration);
CREATE INDEX nodes_ended ON public.nodes USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE UNIQUE INDEX nodes_live ON public.nodes USING btree (id) WHERE (ended_at IS NULL);
CREATE INDEX operations_ended ON public.operations USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX operations_live ON public.operations USING btree (id) WHERE (ended_at IS NULL);
CREATE INDEX pending_hook_calls_by_session ON public.pending_hook_calls USING btree (session_id);
CREATE INDEX results_held ON public.results USING btree (holder_session_id) WHERE ((holder_session_id IS NOT NULL) AND (gone_at IS NULL));
CREATE INDEX results_kept ON public.results USING btree (expires_at) WHERE (gone_at IS NULL);
CREATE INDEX savepoints_by_job ON public.savepoints USING btree (job_id, id);
CREATE INDEX sessions_by_owner ON public.sessions USING btree (owner, id);
CREATE INDEX sessions_ended ON public.sessions USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX sessions_live ON public.sessions USING btree (id) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX sessions_live_name ON public.sessions USING btree (owner, name) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX sessions_pool ON public.sessions USING btree (owner, profile) WHERE (pool AND (ended_at IS NULL) AND ((state)::text <> 'closing'::text));
CREATE INDEX sessions_warm ON public.sessions USING btree (profile, id) WHERE warm;
CREATE INDEX statements_by_end ON public.statements USING btree (state, id) WHERE (ended_at IS NOT NULL);
CREATE INDEX statements_by_owner ON public.statements USING btree (owner, id);
CREATE INDEX statements_by_session ON public.statements USING btree (session_id, id);
CREATE INDEX statements_ended ON public.statements USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX statements_live ON public.statements USING btree (session_id, ordinal) WHERE (ended_at IS NULL);
CREATE INDEX statements_live_by_owner ON public.statements USING btree (owner, state) WHERE (ended_at IS NULL);
CREATE INDEX statements_live_by_state ON public.statements USING btree (state, session_id, ordinal) WHERE (ended_at IS NULL);
CREATE INDEX statements_slow ON public.statements USING btree (ended_at, id) WHERE ((ended_at - started_at) >= '00:00:01'::interval);
CREATE INDEX statements_timed ON public.statements USING btree (id) WHERE ((ended_at IS NULL) AND ((timeout_seconds IS NOT NULL) OR (queue_timeout_seconds IS NOT NULL)));
CREATE INDEX statements_waiting ON public.statements USING btree (waiting_since, id) WHERE ((ended_at IS NULL) AND ((state)::text = 'waiting'::text));
CREATE INDEX stream_queries_by_checkpoint ON public.stream_queries USING btree (checkpoint, id);
CREATE INDEX stream_queries_by_name ON public.stream_queries USING btree (owner, scope, name_key, id);
CREATE INDEX stream_queries_by_owner ON public.stream_queries USING btree (owner, id);
CREATE INDEX stream_queries_by_statement ON public.stream_queries USING btree (statement_id);
CREATE INDEX stream_queries_ended ON public.stream_queries USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX stream_queries_live ON public.stream_queries USING btree (session_id) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX stream_queries_live_checkpoint ON public.stream_queries USING btree (checkpoint) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX stream_queries_live_name ON public.stream_queries USING btree (owner, scope, name_key) WHERE (ended_at IS NULL);
CREATE INDEX table_writes_by_location ON public.table_writes USING hash (location);
CREATE INDEX table_writes_by_statement ON public.table_writes USING btree (statement_id);
CREATE INDEX transactions_by_session ON public.transactions USING btree (session_id);
CREATE INDEX transactions_by_statement ON public.transactions USING btree (statement_id, id);
CREATE INDEX transactions_live ON public.transactions USING btree (statement_id) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX transactions_publishing_location ON public.transactions USING btree (identity, location) WHERE (((state)::text = 'committing'::text) AND (NOT shares_target));
CREATE UNIQUE INDEX transactions_publishing_target ON public.transactions USING btree (identity, target) WHERE (((state)::text = 'committing'::text) AND (NOT shares_target));
ALTER TABLE ONLY public.pending_hook_calls
    ADD CONSTRAINT pending_hook_calls_session_id_exists FOREIGN KEY (session_id) REFERENCES public.sessions(id);
ALTER TABLE ONLY public.pending_hook_calls
    ADD CONSTRAINT pending_hook_calls_statement_id_exists FOREIGN KEY (statement_id) REFERENCES public.statements(id);
ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_statement_id_exists FOREIGN KEY (statement_id) REFERENCES public.statements(id);
ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_session_id_exists FOREIGN KEY (session_id) REFERENCES public.sessions(id);
ALTER TABLE ONLY public.statements
    ADD CONSTRAINT statements_session_id_exists FOREIGN KEY (session_id) REFERENCES public.sessions(id);
ALTER TABLE ONLY public.transactions
    ADD CONSTRAINT transactions_session_id_exists FOREIGN KEY (session_id) REFERENCES public.sessions(id);
ALTER TABLE ONLY public.transactions
    ADD CONSTRAINT transactions_statement_id_exists FOREIGN KEY (statement_id) REFERENCES public.statements(id);
