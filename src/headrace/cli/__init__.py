"""The `headrace` command. Modules that are slow to import are imported only when needed."""
