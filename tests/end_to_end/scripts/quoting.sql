/* Where a statement ends, and where it only seems to; */
SELECT 'a;b', "c;d", 'it''s', "say ""so""", 'back\\slash;', 'quote\';', r'raw\;', R"raw\;";
SELECT 'one ' 'two; ' "three" AS joined; SELECT 2 AS same_line
; -- the semicolon stands alone; this comment does not end anything
SELECT 3 -- a comment; with a semicolon, and a quote that's open
  AS x;;;
SELECT /* a; /* nested; */ comment; */ 4 AS `odd;name`, 5 AS `tick``ed`, 6 AS `--no comment`;
SELECT /*+ COALESCE(1) */ id FROM range(3) ORDER BY id;
SELECT '--', '/*', '*/', '/* ; */', '-- ;';
SELECT 'two
lines;
three' AS text;
SELECT 7 -- goes on\
 with this; still a comment
  AS y;
SELECT "double 'single; inside'", 'single "double; inside"', `a``;b` FROM VALUES (8) AS t(`a``;b`);
SELECT 'tab\tnewline\nnul-free \u00e9 \U0001F600 \101', 'percent\%;', 'under\_;';
SELECT X'3B', hex(';'), b.c FROM (SELECT named_struct('c', ';') AS b);
SELECT 1e3, 1.5E-2, .5, 2., 3L, 4S, 5Y, 6.0BD, 7F, 8D, -9, 0x0A IS NULL AS no FROM (SELECT 1 AS `0x0A`);
SELECT DATE'2024-02-29', TIMESTAMP'2024-02-29 12:34:56.789;' IS NULL AS never
-- fails: INVALID_TYPED_LITERAL
;
SELECT DATE'2024-02-29', TIMESTAMP_NTZ'2024-02-29 12:34:56.789', INTERVAL '1 02:03:04' DAY TO SECOND;
SELECT 1 AS end, 2 AS begin, 3 AS `case`, 4 AS if, 5 AS loop, 6 AS declare;
SELECT CASE WHEN true THEN 'begin;' ELSE 'end;' END AS `end;`;
SELECT CASE end WHEN 1 THEN CASE begin WHEN 2 THEN 'both' END END FROM (SELECT 1 AS end, 2 AS begin);
SELECT `ünï`.`größe;` AS `größe`, '日本語;' AS `日本語` FROM (SELECT 1 AS `größe;`) AS `ünï`;
-- fails: INVALID_IDENTIFIER
SELECT 1 AS größe;
SELECT '😀;' AS `😀`, length('😀;'), '\u003b' = ';';
SELECT id FROM range(4) WHERE id<>1 AND id!=2 AND NOT id<=>3;
SELECT map('k;', 1)['k;'], array(1, 2)[1], '{"a;": 1}':`a;` IS NULL AS gone
-- fails: UNBOUND_SQL_PARAMETER
;
SELECT parse_json('{"a;": [1, null]}'):`a;`[0]::int AS first, 1::string || ';' AS cast;
SELECT transform(array(1, 2), (x, i) -> x * i) AS arrow, 'a' -> 'b'
-- fails: PARSE_SYNTAX_ERROR
;
-- fails: PARSE_SYNTAX_ERROR
SELECT 1 AS one AS two;
-- fails: PARSE_SYNTAX_ERROR
SELEC 'not; a word';
-- fails: DIVIDE_BY_ZERO
SELECT 1 / 0 AS `never; shown`;
-- fails: CAST_INVALID_INPUT
SELECT CAST(s AS INT) FROM VALUES ('12;') AS t(s);
-- fails: USER_RAISED_EXCEPTION
SELECT raise_error('by hand; on purpose');
-- fails: INVALID_ARRAY_INDEX
SELECT array(1, 2)[id] FROM range(3);
/* The last statement needs no semicolon; */ SELECT 'end' AS fin -- ;
