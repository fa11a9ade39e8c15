SELECT 1 + 2 * -3 / 4 % 5 DIV 6
%%
SELECT ~1, 1 & 2, 1 | 2, 1 ^ 2, 1 << 2, 8 >> 1, 8 >>> 1
%%
SELECT a || b || ';' || c FROM t
%%
SELECT 1 = 1, 1 == 1, 1 <> 2, 1 != 2, 1 <=> NULL, 1 <= 2, 1 >= 2, 1 !> 2, 1 !< 2
%%
SELECT NOT true AND !false OR NULL IS NOT NULL
%%
SELECT x IS TRUE, x IS NOT FALSE, x IS UNKNOWN, a IS DISTINCT FROM b FROM t
%%
SELECT a LIKE 'x%', a ILIKE ANY ('a', 'b;'), a NOT LIKE ALL ('c'), a RLIKE 'd+', a REGEXP '\\d' FROM t
%%
SELECT CASE WHEN a > 1 THEN 'x;' WHEN a > 2 THEN 'y' ELSE 'z' END FROM t
%%
SELECT CASE a WHEN 1 THEN CASE b WHEN 2 THEN 3 END ELSE 4 END AS end FROM t
%%
SELECT CASE WHEN end > 1 THEN end ELSE end END end FROM t
%%
SELECT if(a, b, c), coalesce(a, b), nullif(a, b) FROM t
%%
SELECT CAST('1' AS INT), TRY_CAST('x' AS DECIMAL(10, 2)), '3'::bigint, a::struct<x: int, y: array<map<string, int>>> FROM t
%%
SELECT 1L, 2S, 3Y, 4.5, .5, 5., 6e3, 7.5E-3, 8D, 9.0F, 10BD, 1e+5, 1E-5
%%
SELECT -9223372036854775808, 0.1e1BD
%%
SELECT DATE '2024-02-29', TIMESTAMP '2024-01-01 12:00:00', TIMESTAMP_NTZ '2024-01-01', TIMESTAMP_LTZ '2024-01-01', TIME '12:34:56'
%%
SELECT X'1F2E', x'', x"ab"
%%
SELECT INTERVAL 1 DAY, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL 3 WEEKS 2 HOURS
%%
SELECT INTERVAL '5' MINUTE + INTERVAL -3 SECONDS, INTERVAL '1 year 2 months'
%%
SELECT current_date, current_timestamp, current_user, current_time
%%
SELECT EXTRACT(YEAR FROM d), date_part('month', d), timestampadd(DAY, 3, d), datediff(HOUR, a, b) FROM t
%%
SELECT SUBSTRING('abc' FROM 2 FOR 1), substr('abc', 2), TRIM(BOTH 'x' FROM 'xax'), TRIM(LEADING FROM ' a'), OVERLAY('abc' PLACING 'z' FROM 1), POSITION('b' IN 'abc')
%%
SELECT transform(xs, x -> x + 1), aggregate(xs, 0, (acc, x) -> acc + x), filter(xs, (x, i) -> i > 0) FROM t
%%
SELECT struct(1 AS a, 'b' AS b), (1, 2, 3), named_struct('x', 1)
%%
SELECT j:a.b[0].c, j:['x;y'], j:`odd key`, j:items[2].name::int FROM variants
%%
SELECT parse_json('{"a": [1, 2, {"b": null}], "c;d": 1}') : a
%%
SELECT variant_get(v, '$.a[0]', 'int'), v:a::string FROM t
%%
SELECT 'a' COLLATE UTF8_LCASE = 'A', name COLLATE UNICODE_CI_AI FROM t ORDER BY name COLLATE de
%%
SELECT :name, :id + 1, ?, ? || 'x;y'
%%
SELECT * FROM t WHERE a = :a AND b IN (:b1, :b2) LIMIT :n
%%
SELECT first(x IGNORE NULLS), last(x), any_value(x) FROM t
%%
SELECT count(DISTINCT a, b), approx_percentile(x, array(0.5, 0.9)) FROM t
%%
SELECT mask(phone, otherChar => ';'), my_fn(a => 1, b => 'x') FROM t
%%
SELECT `a b`, `back``tick`, `semi;colon`, `new
line` FROM t
%%
SELECT t.`a;b`.c, t.d['e;f'] FROM t
%%
SELECT `élan`, `größe`, `имя`, `列;` FROM `таблица`
%%
SELECT 1 AS `😀;😀`, '😀;' AS smile
%%
SELECT _x, __y, a1, 1a, x9y FROM t
%%
SELECT array(1, 2, 3)[1 - 1], map(1, map(2, 3))[1][2]
%%
SELECT cast(NULL AS INTERVAL DAY TO SECOND), cast(NULL AS INTERVAL YEAR), cast(NULL AS VOID), cast(x AS VARIANT) FROM t
%%
SELECT cast(a AS ARRAY<ARRAY<INT>>), cast(b AS MAP<STRING, ARRAY<STRUCT<x: INT>>>), 8 >> 2 FROM t
%%
SELECT cast(a AS STRUCT<>), cast(b AS CHAR(3)), cast(c AS VARCHAR(10)), cast(d AS STRING COLLATE UNICODE) FROM t
%%
SELECT sum(x) FILTER (WHERE y), max_by(a, b), mode() WITHIN GROUP (ORDER BY a DESC) FROM t
%%
SELECT a.b.c.d, a.b[0].c['k'].d FROM a
%%
SELECT - - 1, - -1, 1 - -1, 1 --1
%%
SELECT 5 / 2 * 3, a/b, a/ b, a /b FROM t
%%
SELECT 1 * /* one */ 2
%%
SELECT 'it''s', "say ""hi""", 'a' 'b' "c"
%%
SELECT exists(xs, x -> x IS NULL) AND EXISTS (SELECT 1)
%%
SELECT x BETWEEN 1 AND 2 AND y NOT BETWEEN 3 AND 4 FROM t
%%
SELECT user, session_user, identifier FROM t
%%
SELECT timestamp_seconds(1), make_interval(0, 1), current_catalog(), version()
%%
SELECT reflect('java.util.UUID', 'randomUUID'), java_method('java.lang.Math', 'abs', -1)
