"""Services of one host for its node: Java, the Hive metastore, health checks, idle shutdown."""
