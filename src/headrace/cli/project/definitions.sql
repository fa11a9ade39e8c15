-- The streams, sinks, tables and views that the jobs name. Each job creates those that it needs.

-- A source that needs no other system: one row a second, with the columns timestamp and value.
CREATE STREAM ticks FROM rate OPTIONS ('rowsPerSecond' = '1');

-- JSON files. Each version of a job writes to a folder of its own.
CREATE SINK even_tick_files TO json;

CREATE TABLE IF NOT EXISTS tick_log (at TIMESTAMP, value BIGINT) USING parquet;

CREATE TABLE IF NOT EXISTS orders (
  id BIGINT,
  region STRING,
  amount DECIMAL(10, 2),
  ordered_at TIMESTAMP,
  day DATE
) USING parquet PARTITIONED BY (day);

CREATE VIEW IF NOT EXISTS large_orders AS SELECT * FROM orders WHERE amount >= 10;

CREATE TABLE IF NOT EXISTS revenue (
  region STRING,
  amount DECIMAL(20, 2),
  large_orders BIGINT,
  day DATE
) USING parquet PARTITIONED BY (day);
