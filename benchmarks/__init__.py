"""`make bench`: Headrace compared with plain Spark, Spark Connect and the Spark Thrift Server."""
