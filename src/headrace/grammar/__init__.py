"""What Headrace reads of a SQL text before Spark reads it. Nothing here alters a text."""
