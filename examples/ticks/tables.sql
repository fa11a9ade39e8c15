-- What the jobs of this folder read and write. `headrace deploy examples/ticks/` reads this file.

-- Five rows a second: columns timestamp and value.
CREATE STREAM ticks FROM rate OPTIONS ('rowsPerSecond' = '5');

-- JSON files. Each version of a job gets a folder of its own.
CREATE SINK even_tick_files TO json;
CREATE SINK shout_files TO json;

-- The log of the session: headrace session log jobs-default
CREATE SINK session_log TO console;

CREATE TABLE IF NOT EXISTS tick_log (
  timestamp TIMESTAMP,
  value BIGINT,
  __create_timestamp TIMESTAMP,
  __query_name STRING,
  __query_description STRING,
  __query_id STRING,
  __query_version INT,
  __query_create_timestamp TIMESTAMP
);
