"""Pages for people, which any node renders from the store."""
