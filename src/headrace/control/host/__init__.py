"""What a node needs of its host: Java, the Hive metastore, health checks, idle shutdown."""
