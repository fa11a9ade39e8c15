-- A small shop: tables, rows, views, functions and queries over them.
CREATE DATABASE script_tables COMMENT 'a shop; made by a script';
USE script_tables;
SELECT current_catalog(), current_database();

CREATE TABLE products (
  id INT NOT NULL COMMENT 'the key; never reused',
  name STRING,
  price DECIMAL(10, 2) DEFAULT 9.99,
  tags ARRAY<STRING>,
  size STRUCT<width: DOUBLE, height: DOUBLE>
) USING parquet COMMENT 'what is sold; by piece';
DESCRIBE TABLE products;
INSERT INTO products VALUES
  (1, 'lamp; small', 19.90, array('light', 'table;top'), named_struct('width', 0.5, 'height', 1.25)),
  (2, 'desk', 249.00, array(), NULL),
  (3, 'Stuhl „Otto“', 89.50, array('seat', NULL), named_struct('width', NULL, 'height', 0.9));
INSERT INTO products (id, name) VALUES (4, 'pencil');
INSERT INTO products (name, id, price) SELECT concat('item ', id), id, id * 1.5 FROM range(5, 8);
SELECT * FROM products ORDER BY id;

CREATE TABLE sales (day DATE, product INT, pieces BIGINT, region STRING)
USING parquet
PARTITIONED BY (region);
INSERT INTO sales
SELECT
  date_add(DATE'2024-02-27', CAST(id % 5 AS INT)),
  CAST(id % 7 + 1 AS INT),
  id * id % 11,
  CASE id % 3 WHEN 0 THEN 'north' WHEN 1 THEN 'south' ELSE 'east;west' END
FROM range(40);
SHOW PARTITIONS sales;
SELECT count(*), sum(pieces), min(day), max(day) FROM sales;
INSERT OVERWRITE sales PARTITION (region = 'north') SELECT DATE'2024-03-01', 1, 100;
SELECT region, count(*) AS n, sum(pieces) AS pieces FROM sales GROUP BY region ORDER BY region;
ALTER TABLE sales ADD PARTITION (region = 'nowhere');
SELECT count(*) FROM sales WHERE region = 'nowhere';
ALTER TABLE sales DROP PARTITION (region = 'nowhere');
ALTER TABLE products ADD COLUMNS (made_on DATE COMMENT 'unknown; for old ones');
SELECT id, made_on FROM products WHERE made_on IS NULL ORDER BY id DESC LIMIT 2;

CREATE VIEW dear AS SELECT * FROM products WHERE price > 50;
CREATE OR REPLACE TEMPORARY VIEW daily (day, pieces) AS
  SELECT day, sum(pieces) FROM sales GROUP BY day;
SELECT id, name FROM dear ORDER BY id;
SELECT * FROM daily ORDER BY day;
SHOW TABLES;
SHOW VIEWS LIKE 'd*';

WITH sold AS (
  SELECT product, sum(pieces) AS pieces FROM sales GROUP BY product
), priced (product, pieces, worth) AS (
  SELECT product, pieces, pieces * price FROM sold JOIN products ON product = id
)
SELECT name, worth, rank() OVER (ORDER BY worth DESC) AS place
FROM priced JOIN products p ON p.id = priced.product
ORDER BY place, name;

WITH RECURSIVE steps (n, total) AS (
  VALUES (1, 1)
  UNION ALL
  SELECT n + 1, total + n + 1 FROM steps WHERE n < 10
)
SELECT max(n), max(total) FROM steps;

FROM sales
|> WHERE pieces > 3
|> AGGREGATE count(*) AS n, max_by(product, pieces * 100 + product) AS best GROUP BY region
|> ORDER BY region;

SELECT * FROM (SELECT region, product, pieces FROM sales WHERE product < 4)
PIVOT (sum(pieces) FOR product IN (1 AS one, 2 AS two, 3 AS three))
ORDER BY region;
SELECT id, tag, size.height FROM products LATERAL VIEW OUTER explode(tags) AS tag ORDER BY id, tag;
SELECT region, day, sum(pieces) FROM sales GROUP BY CUBE (region, day) ORDER BY ALL;
SELECT grouping(region), region, count(*) FROM sales GROUP BY ROLLUP (region) ORDER BY 1, 2;
VALUES (1, 'a'), (2, 'b;c') ORDER BY col1 DESC;
TABLE dear;

CREATE FUNCTION gross(net DECIMAL(10, 2), rate DECIMAL(4, 2) DEFAULT 0.19)
RETURNS DECIMAL(12, 2)
COMMENT 'with tax; rounded'
RETURN CAST(net * (1 + rate) AS DECIMAL(12, 2));
SELECT id, gross(price), gross(price, 0.07) FROM products ORDER BY id;
CREATE TEMPORARY FUNCTION cheaper_than(bound DOUBLE)
RETURNS TABLE (id INT, name STRING)
RETURN SELECT id, name FROM script_tables.products WHERE price < bound;
SELECT * FROM cheaper_than(15) ORDER BY id;
SELECT aggregate(sequence(1, 5), 0, (sum, x) -> sum + x, sum -> sum * 10) AS folded;
DROP TEMPORARY FUNCTION cheaper_than;
DROP FUNCTION gross;

CREATE TABLE kept AS SELECT id, name, price FROM products WHERE id <= 3;
CREATE TABLE IF NOT EXISTS kept AS SELECT 1 AS other;
SELECT * FROM kept ORDER BY id;
TRUNCATE TABLE kept;
SELECT count(*) FROM kept;
ALTER TABLE kept RENAME TO emptied;
SHOW COLUMNS IN emptied;
DROP TABLE emptied;

-- fails: TABLE_OR_VIEW_ALREADY_EXISTS
CREATE TABLE products (id INT);
-- fails: TABLE_OR_VIEW_NOT_FOUND
SELECT * FROM emptied;
-- fails: UNRESOLVED_COLUMN.WITH_SUGGESTION
SELECT id, nome FROM products;
-- fails: INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS
INSERT INTO sales VALUES (DATE'2024-01-01', 1, 1, 'x', 'too many');
-- fails: MISSING_AGGREGATION
SELECT region, pieces FROM sales GROUP BY region;
-- The failed insert has left nothing; neither have the others.
SELECT count(*) FROM sales;

DROP VIEW daily;
USE default;
-- fails: SCHEMA_NOT_EMPTY
DROP DATABASE script_tables;
DROP DATABASE script_tables CASCADE;
