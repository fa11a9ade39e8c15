"""A package outside of `src` that adds a source, a sink and a catalog: the one of extend.md."""
