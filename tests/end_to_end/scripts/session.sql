-- What changes the session: configuration, variables, dynamic statements.
SET spark.sql.session.timeZone = America/St_Johns;
SET spark.sql.session.timeZone;
SELECT current_timezone(), TIMESTAMP'2024-07-01 12:00:00', TIMESTAMP_NTZ'2024-07-01 12:00:00';
SET TIME ZONE 'Asia/Kolkata';
SELECT date_format(TIMESTAMP'2024-07-01 00:00:00 UTC', 'yyyy-MM-dd HH:mm:ss VV');
SET TIME ZONE INTERVAL 2 HOURS;
SELECT hour(TIMESTAMP'2024-07-01 00:00:00Z');
RESET spark.sql.session.timeZone;
SET spark.sql.ansi.enabled = false;
SELECT 1 / 0, CAST('x' AS INT), array(1)[5];
SET spark.sql.ansi.enabled = true;
-- fails: DIVIDE_BY_ZERO
SELECT 1 / 0;
SET script.word = some; SET script.word;
SELECT '${script.word}' AS replaced;
SET spark.sql.variable.substitute = false;
SELECT '${script.word}' AS `kept`;
RESET spark.sql.variable.substitute;
SET spark.sql.caseSensitive = true;
-- fails: UNRESOLVED_COLUMN.WITH_SUGGESTION
SELECT A FROM (SELECT 1 AS a);
RESET spark.sql.caseSensitive;
SELECT A FROM (SELECT 1 AS a);
-- fails: CANNOT_MODIFY_STATIC_CONFIG
SET spark.sql.warehouse.dir = /tmp/elsewhere;

DECLARE VARIABLE counter INT DEFAULT 40;
DECLARE label STRING = 'none;';
DECLARE OR REPLACE label = 'first;';
DECLARE when_made TIMESTAMP DEFAULT TIMESTAMP'2024-01-01 00:00:00';
SELECT counter, label, year(when_made);
SET VAR counter = counter + 2;
SELECT system.session.counter AS qualified, session.counter = 42 AS right;
SET VAR (counter, label) = (SELECT max(id), concat_ws(';', collect_list(id)) FROM range(3));
SELECT counter, label;
SET VAR counter = DEFAULT;
SELECT counter;
SELECT id FROM range(60) WHERE id > counter ORDER BY id LIMIT 3;
-- fails: VARIABLE_ALREADY_EXISTS
DECLARE counter INT;
-- fails: CAST_INVALID_INPUT
SET VAR counter = 'many';
-- fails: UNRESOLVED_VARIABLE
SET VAR no_such = 1;
SELECT counter;

EXECUTE IMMEDIATE 'SELECT ''dynamic;'' AS text, 1 + 1 AS two';
DECLARE query STRING DEFAULT 'SELECT sum(id), max(id) FROM range(?) WHERE id > ?';
EXECUTE IMMEDIATE query USING 10, 3;
EXECUTE IMMEDIATE 'SELECT :a || '';'' || :b AS both' USING 'x' AS a, 'y' AS b;
EXECUTE IMMEDIATE 'SELECT id * 2, ''got;'' FROM range(22) ORDER BY id DESC LIMIT 1' INTO counter, label;
SELECT counter, label;
EXECUTE IMMEDIATE 'SET spark.sql.session.timeZone = Asia/Tokyo';
SELECT current_timezone();
RESET spark.sql.session.timeZone;
EXECUTE IMMEDIATE 'CREATE OR REPLACE TEMPORARY VIEW made_dynamically AS SELECT 7 AS seven';
SELECT seven FROM made_dynamically;
SELECT seven FROM IDENTIFIER('made_' || 'dynamically');
-- fails: PARSE_SYNTAX_ERROR
EXECUTE IMMEDIATE 'SELEC 1';
-- fails: TABLE_OR_VIEW_NOT_FOUND
EXECUTE IMMEDIATE 'SELECT * FROM no_such_' || 'table';
-- fails: ROW_SUBQUERY_TOO_MANY_ROWS
EXECUTE IMMEDIATE 'SELECT id FROM range(2)' INTO counter;

CACHE TABLE kept_warm AS SELECT id, id % 2 = 0 AS even FROM range(10);
SELECT even, count(*) FROM kept_warm GROUP BY even ORDER BY even;
UNCACHE TABLE kept_warm;
DROP VIEW kept_warm;
DROP VIEW made_dynamically;
DROP TEMPORARY VARIABLE query;
DROP TEMPORARY VARIABLE IF EXISTS label;
DROP TEMPORARY VARIABLE counter;
DROP TEMPORARY VARIABLE when_made;
-- fails: UNRESOLVED_COLUMN.WITHOUT_SUGGESTION
SELECT counter;
RESET;
