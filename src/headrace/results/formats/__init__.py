"""The formats in which clients read results. Each module writes rows as a stream of bytes."""
