"""Load local files into tables: read rows, infer types, and send the rows to Spark."""
