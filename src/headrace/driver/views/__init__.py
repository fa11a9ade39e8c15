"""Materialized views: their statements, and intents for the catalog."""
