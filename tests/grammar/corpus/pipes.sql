FROM t |> SELECT a, b
%%
TABLE t |> WHERE a > 1 |> SELECT *
%%
FROM t |> EXTEND a + 1 AS b, 'x;y' AS c
%%
FROM t |> SET a = a * 2, b = 'c;'
%%
FROM t |> DROP a, b
%%
FROM t |> AS u |> SELECT u.a
%%
FROM t |> AGGREGATE sum(x) AS s GROUP BY k
%%
FROM t |> AGGREGATE count(*)
%%
FROM t |> JOIN u USING (id) |> LEFT JOIN v ON t.id = v.id
%%
FROM t |> ORDER BY a DESC |> LIMIT 10 OFFSET 5
%%
VALUES (1), (2) AS v(x) |> UNION ALL VALUES (3) |> SELECT x + 1
%%
FROM t |> TABLESAMPLE (10 PERCENT)
%%
FROM t |> PIVOT (sum(v) FOR q IN (1, 2))
%%
FROM t |> UNPIVOT (v FOR q IN (a, b)) |> WHERE v > 0
%%
SELECT 1 AS a |> SELECT a |> WHERE a = 1
%%
FROM t
|> WHERE x <> ';' -- ; not the end
|> EXTEND CASE WHEN x THEN 1 END AS end
|> SELECT end
%%
WITH c AS (FROM t |> WHERE a) FROM c |> EXCEPT DISTINCT TABLE u
%%
INSERT INTO t FROM u |> SELECT a
%%
CREATE TABLE t AS FROM u |> SELECT a, b |> LIMIT 1
%%
FROM t |> SELECT a AS `|>;`
%%
FROM t |> SELECT sum(a) OVER w WINDOW w AS (ORDER BY b)
%%
FROM t |> MINUS TABLE u |> INTERSECT ALL TABLE v
%%
FROM t |> DISTRIBUTE BY a SORT BY b
%%
(FROM t |> SELECT a) |> CROSS JOIN (FROM u |> SELECT b)
