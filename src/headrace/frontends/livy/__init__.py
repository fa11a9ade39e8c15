"""Livy's REST API: sessions, and the SQL statements that run in them."""
