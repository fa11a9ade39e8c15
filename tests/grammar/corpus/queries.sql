SELECT 1
%%
select 1 as x, 'two' as y, 3.0 as z
%%
SELECT * FROM flights
%%
SELECT f.* EXCEPT (dep_delay, arr_delay) FROM flights f
%%
SELECT DISTINCT carrier FROM flights WHERE month BETWEEN 1 AND 3 ORDER BY carrier DESC NULLS LAST LIMIT 10 OFFSET 2
%%
SELECT carrier, count(*) AS n, avg(arr_delay) FROM flights GROUP BY carrier HAVING count(*) > 100 ORDER BY n
%%
SELECT carrier, month, sum(distance) FROM flights GROUP BY carrier, month WITH ROLLUP
%%
SELECT carrier, month, sum(distance) FROM flights GROUP BY CUBE (carrier, month)
%%
SELECT carrier, month, grouping_id() FROM flights GROUP BY GROUPING SETS ((carrier), (month), (carrier, month), ())
%%
SELECT carrier, origin FROM flights GROUP BY ALL ORDER BY ALL
%%
SELECT a.x, b.y FROM a JOIN b ON a.id = b.id
%%
SELECT * FROM a LEFT OUTER JOIN b USING (id, day) WHERE b.id IS NULL
%%
SELECT * FROM a FULL JOIN b ON a.id <=> b.id CROSS JOIN c
%%
SELECT * FROM a LEFT SEMI JOIN b ON a.id = b.id
%%
SELECT * FROM a LEFT ANTI JOIN b ON a.id = b.id
%%
SELECT * FROM a NATURAL JOIN b
%%
SELECT * FROM a, LATERAL (SELECT max(v) AS m FROM b WHERE b.id = a.id) AS t
%%
SELECT * FROM a JOIN LATERAL explode(a.items) AS t(item) ON true
%%
SELECT id, item FROM orders LATERAL VIEW OUTER explode(items) t AS item
%%
SELECT id, k, v FROM orders LATERAL VIEW posexplode(items) p AS pos, item LATERAL VIEW explode(props) q AS k, v
%%
WITH late AS (SELECT * FROM flights WHERE arr_delay > 60) SELECT count(*) FROM late
%%
WITH a AS (SELECT 1 AS x), b (y) AS (SELECT x + 1 FROM a) SELECT * FROM a, b
%%
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT * FROM r
%%
WITH RECURSIVE r(n) MAX RECURSION LEVEL 50 AS (VALUES (0) UNION ALL SELECT n + 1 FROM r WHERE n < 40) SELECT sum(n) FROM r
%%
SELECT * FROM (SELECT 1 AS a UNION ALL SELECT 2 UNION DISTINCT SELECT 3) t
%%
(SELECT 1) UNION (SELECT 2) EXCEPT (SELECT 3) INTERSECT SELECT 1
%%
SELECT 1 MINUS SELECT 2
%%
TABLE flights
%%
VALUES (1, 'a'), (2, 'b') AS t(id, name)
%%
SELECT * FROM VALUES (1, 2), (3, 4) t(a, b) WHERE a IN (1, 3) AND b NOT IN (SELECT 5)
%%
FROM flights SELECT carrier, origin WHERE month = 1
%%
FROM flights
%%
SELECT carrier, dep_delay, rank() OVER (PARTITION BY carrier ORDER BY dep_delay DESC) AS r FROM flights
%%
SELECT sum(x) OVER w, avg(x) OVER (w) FROM t WINDOW w AS (PARTITION BY k ORDER BY d ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
%%
SELECT lag(x, 1) IGNORE NULLS OVER (ORDER BY d RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND UNBOUNDED FOLLOWING) FROM t
%%
SELECT count(*) FILTER (WHERE x > 0), percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t
%%
SELECT listagg(DISTINCT name, ', ') WITHIN GROUP (ORDER BY name) FROM t
%%
SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (42)
%%
SELECT * FROM t TABLESAMPLE (5 ROWS) s
%%
SELECT * FROM t TABLESAMPLE (BUCKET 4 OUT OF 10)
%%
SELECT * FROM t PIVOT (sum(v) AS total FOR q IN (1 AS q1, 2 AS q2, 3, 4))
%%
SELECT * FROM t PIVOT (sum(v), avg(v) FOR (q, y) IN ((1, 2020) AS a, (2, 2021) AS b))
%%
SELECT * FROM t UNPIVOT INCLUDE NULLS (v FOR q IN (q1 AS `first`, q2, q3)) AS u
%%
SELECT * FROM t UNPIVOT ((a, b) FOR half IN ((q1, q2) AS h1, (q3, q4) AS h2))
%%
SELECT * FROM t VERSION AS OF 12
%%
SELECT * FROM t FOR SYSTEM_VERSION AS OF 'tag;1'
%%
SELECT * FROM t TIMESTAMP AS OF '2024-01-01 00:00:00'
%%
SELECT * FROM t FOR SYSTEM_TIME AS OF current_timestamp() - INTERVAL 1 HOUR
%%
SELECT * FROM parquet.`/tmp/a;b/c.parquet`
%%
SELECT * FROM csv.`file:///data/x--y.csv` WITH ('header' = 'true', 'sep' = ';')
%%
SELECT * FROM range(10)
%%
SELECT * FROM my_udtf(TABLE(t) PARTITION BY k ORDER BY d, flag => true)
%%
SELECT * FROM my_udtf(rows => TABLE(SELECT 1) WITH SINGLE PARTITION)
%%
SELECT * FROM STREAM events
%%
SELECT * FROM STREAM(events) WITH ('a' = 'b')
%%
SELECT (SELECT max(x) FROM t) AS m, EXISTS (SELECT 1 FROM u WHERE u.id = t.id) FROM t
%%
SELECT * FROM t WHERE (a, b) IN (SELECT c, d FROM u)
%%
SELECT * FROM t CLUSTER BY a
%%
SELECT * FROM t DISTRIBUTE BY a SORT BY b DESC
%%
SELECT TRANSFORM (a, b) USING 'cat; true' AS (c STRING, d INT) FROM t
%%
SELECT TRANSFORM (a) ROW FORMAT DELIMITED FIELDS TERMINATED BY ';' USING 'cat' AS (c) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\t' FROM t
%%
MAP a, b USING 'script' AS c, d FROM t
%%
REDUCE a USING 'script.py' AS (b) FROM t
%%
SELECT /*+ BROADCAST(b) */ * FROM a JOIN b ON a.id = b.id
%%
SELECT /*+ MERGE(a, b), COALESCE(3) */ /*+ REBALANCE */ * FROM a JOIN b USING (id)
%%
SELECT/*+REPARTITION(4,c)*/* FROM t -- ; */
%%
SELECT * FROM a JOIN b ON a.x = b.x AND a.y > CASE WHEN b.z THEN 1 ELSE 2 END
%%
SELECT * FROM catalog1.db1.t1, `weird ; catalog`.`db`.`t;2`
%%
SELECT * FROM IDENTIFIER('db.' || 't')
%%
SELECT IDENTIFIER('a')(1), IDENTIFIER(:col) FROM IDENTIFIER(:tab)
%%
SELECT * FROM t LIMIT ALL
%%
SELECT * FROM (((SELECT 1)))
%%
SELECT *, x AS begin, y AS end FROM t
%%
SELECT begin, end, case FROM begin JOIN end ON begin.id = end.id
%%
SELECT end FROM end ORDER BY end
%%
SELECT a.begin.end FROM a
%%
SELECT 1 begin
%%
SELECT loop, while, repeat, until, do, if, elseif, leave, iterate FROM declare
%%
WITH begin AS (SELECT 1 AS end) SELECT * FROM begin
%%
SELECT count(*) FROM a WHERE b LIKE 'x;%' ESCAPE ';'
%%
SELECT named_struct('a', 1).a, array(1, 2)[0], map('k', 'v')['k']
%%
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
%%
SELECT s_acctbal, s_name FROM part, supplier, partsupp WHERE p_partkey = ps_partkey AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp WHERE p_partkey = ps_partkey)
%%
SELECT * FROM a TABLESAMPLE (0.5 PERCENT) x INNER JOIN LATERAL (SELECT x.id) y ON true
