-- The departures from New York in 2013, as they arrive: one file for all days.
CREATE TABLE IF NOT EXISTS departures_file (
  year INT, month INT, day INT,
  dep_time INT, sched_dep_time INT, dep_delay INT,
  arr_time INT, sched_arr_time INT, arr_delay INT,
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP
) USING csv OPTIONS (path '${FLIGHTS}/flights.csv', header true, nullValue 'NA');

-- The rows of each day, as they arrived.
CREATE TABLE IF NOT EXISTS departures (
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  scheduled_at TIMESTAMP, dep_delay INT, arr_delay INT, distance INT, day DATE
) USING parquet PARTITIONED BY (day);

-- The departures that took place, each with known delays.
CREATE TABLE IF NOT EXISTS flown (
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  scheduled_at TIMESTAMP, dep_delay INT, arr_delay INT, distance INT, day DATE
) USING parquet PARTITIONED BY (day);

CREATE TABLE IF NOT EXISTS delays (
  origin STRING, carrier STRING, flights BIGINT, mean_delay DOUBLE, hours_lost DOUBLE, day DATE
) USING parquet PARTITIONED BY (day);
