"""A package outside of `src` that adds a source, a sink, a catalog and a backend: see extend.md."""
