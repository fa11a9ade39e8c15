"""SQL text: what is read of it before Spark reads it. Nothing here ever alters a text."""
