"""Materialized views: their statements, and what their drivers' reports change."""
