"""Who may call which operation of the HTTP APIs.

The policy decides (`control/policy.py`). This table says what it decides for each operation. The
reference shows it, and a test compares it with every operation and every kind of caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Access(StrEnum):
    """Who may call an operation. The text is for readers of the reference."""

    OPEN = "everyone, without credentials"
    SIGNED_IN = "everyone who has signed in"
    WITH_ROLE = "everyone with a role"
    VISIBLE = "everyone who has signed in; it answers what the caller may read"
    CREATE = "users and administrators"
    CREATE_IN_PERSON = "users and administrators, not with a token"
    READ = "owners, operators, auditors and administrators"
    READ_CONTENT = "owners, auditors and administrators"
    CHANGE = "owners and administrators"
    RUN = "owners"
    WATCH = "operators, auditors and administrators"
    AUDIT = "auditors and administrators"
    OPERATE = "operators and administrators"
    ADMINISTER = "administrators"


OPERATIONS: Mapping[str, Access] = {
    "open_session": Access.CREATE,
    "list_sessions": Access.VISIBLE,
    "show_session": Access.READ,
    "close_session": Access.CHANGE,
    "read_session_log": Access.READ,
    "open_connection": Access.CREATE,
    "list_connections": Access.VISIBLE,
    "show_connection": Access.READ,
    "close_connection": Access.CHANGE,
    "submit_statement": Access.CREATE,
    "list_statements": Access.VISIBLE,
    "show_statement": Access.READ,
    "cancel_statement": Access.CHANGE,
    "show_execution": Access.READ_CONTENT,
    "read_result": Access.READ_CONTENT,
    "list_streams": Access.VISIBLE,
    "show_stream": Access.READ,
    "show_stream_history": Access.READ,
    "act_on_stream": Access.CHANGE,
    "plan_jobs": Access.CREATE,
    "list_deployments": Access.VISIBLE,
    "apply_plan": Access.CHANGE,
    "show_deployment": Access.READ,
    "list_jobs": Access.VISIBLE,
    "show_job": Access.READ,
    "delete_job": Access.CHANGE,
    "list_versions": Access.READ,
    "run_job": Access.CHANGE,
    "backfill_job": Access.CHANGE,
    "list_runs": Access.VISIBLE,
    "list_expectations": Access.READ,
    "show_run": Access.READ,
    "cancel_run": Access.CHANGE,
    "repair_run": Access.CHANGE,
    "cancel_backfill": Access.CHANGE,
    "show_lineage": Access.VISIBLE,
    "stop_job": Access.CHANGE,
    "take_savepoint": Access.CHANGE,
    "start_job": Access.CHANGE,
    "roll_back_job": Access.CHANGE,
    "list_transactions": Access.VISIBLE,
    "show_transaction": Access.READ,
    "show_recovery": Access.VISIBLE,
    "retry_recovery": Access.CREATE,
    "list_events": Access.VISIBLE,
    "create_webhook": Access.CREATE,
    "list_webhooks": Access.VISIBLE,
    "show_webhook": Access.READ,
    "delete_webhook": Access.CHANGE,
    "test_webhook": Access.CHANGE,
    "list_deliveries": Access.READ,
    "create_token": Access.CREATE_IN_PERSON,
    "list_tokens": Access.VISIBLE,
    "revoke_token": Access.CHANGE,
    "list_issuers": Access.OPEN,
    "show_caller": Access.SIGNED_IN,
    "show_quota": Access.VISIBLE,
    "list_users": Access.WATCH,
    "disable_user": Access.ADMINISTER,
    "enable_user": Access.ADMINISTER,
    "list_audit": Access.AUDIT,
    "list_nodes": Access.WITH_ROLE,
    "drain_node": Access.OPERATE,
    "confirm_node_gone": Access.OPERATE,
    "purge_history": Access.ADMINISTER,
    "create_async_query": Access.CREATE,
    "show_async_query": Access.READ,
    "cancel_async_query": Access.CHANGE,
    "show_livy_version": Access.SIGNED_IN,
    "open_livy_session": Access.CREATE,
    "list_livy_sessions": Access.VISIBLE,
    "show_livy_session": Access.READ,
    "close_livy_session": Access.CHANGE,
    "show_livy_session_state": Access.READ,
    "read_livy_session_log": Access.READ,
    "run_livy_statement": Access.RUN,
    "list_livy_statements": Access.READ,
    "show_livy_statement": Access.READ,
    "cancel_livy_statement": Access.CHANGE,
    "run_livy_batch": Access.CREATE,
    "list_livy_batches": Access.VISIBLE,
    "show_livy_batch": Access.READ,
    "end_livy_batch": Access.CHANGE,
    "show_livy_batch_state": Access.READ,
    "read_livy_batch_log": Access.READ,
    "show_cluster_info": Access.SIGNED_IN,
    "ping_cluster": Access.SIGNED_IN,
    "read_metrics": Access.WATCH,
    "check_health": Access.OPEN,
    "check_readiness": Access.OPEN,
}
"""Operations by the id that the OpenAPI document gives them."""
