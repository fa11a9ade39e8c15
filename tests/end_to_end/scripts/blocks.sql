-- Scripting blocks: each is one statement, whatever stands between its BEGIN and END.
CREATE DATABASE script_blocks;
USE script_blocks;
CREATE TABLE log (step INT, what STRING) USING parquet;

BEGIN END;
BEGIN SELECT 1 AS only; END;
BEGIN
  SELECT 'not shown;';
  SELECT 'the last one; is';
END;

-- A loop with a condition, IF in all its parts, and assignment.
BEGIN
  DECLARE n INT DEFAULT 27; -- a semicolon; in a comment
  DECLARE steps INT DEFAULT 0;
  DECLARE highest INT = n;
  WHILE n <> 1 DO
    IF n % 2 = 0 THEN
      SET n = n DIV 2;
    ELSEIF n > 0 THEN
      SET n = 3 * n + 1;
    ELSE
      SET n = 1;
    END IF;
    IF n > highest THEN SET highest = n; END IF;
    SET steps = steps + 1;
    IF steps >= 5 THEN SET n = 1; END IF;
  END WHILE;
  SELECT steps, highest;
END;

-- Labels, ITERATE and LEAVE through two loops.
BEGIN
  DECLARE i INT DEFAULT 0;
  DECLARE j INT;
  DECLARE found STRING DEFAULT '';
  outer_loop: LOOP
    SET i = i + 1;
    IF i > 3 THEN LEAVE outer_loop; END IF;
    SET j = 0;
    inner_loop: REPEAT
      SET j = j + 1;
      IF j = i THEN ITERATE outer_loop; END IF;
      SET found = found || i || ':' || j || ';';
    UNTIL j >= 3 END REPEAT inner_loop;
  END LOOP outer_loop;
  VALUES (i, j, found);
END;

-- CASE as a statement, in both forms, beside CASE as an expression; named like keywords.
BEGIN
  DECLARE end_state STRING DEFAULT CASE WHEN 1 = 1 THEN 'begin' ELSE 'end' END;
  DECLARE picked INT;
  CASE end_state
    WHEN 'end' THEN SET picked = 0;
    WHEN CASE WHEN true THEN 'begin' END THEN
      CASE
        WHEN picked IS NOT NULL THEN SET picked = 1;
        WHEN picked IS NULL AND end_state LIKE '%gin' THEN SET picked = 2;
        ELSE SET picked = 3;
      END CASE;
    ELSE SET picked = 4;
  END CASE;
  SELECT picked, CASE picked WHEN 2 THEN 'two;' END AS end;
END;

-- FOR over a query, writing rows as it goes.
BEGIN
  FOR row AS SELECT id, concat('row;', id) AS text FROM range(3) ORDER BY id DO
    IF row.id % 2 = 0 THEN
      INSERT INTO log VALUES (CAST(row.id AS INT), row.text);
    END IF;
  END FOR;
  SELECT count(*) AS written FROM log;
END;
SELECT * FROM log ORDER BY step;

-- Nested blocks with variables that hide one another.
BEGIN
  DECLARE v STRING DEFAULT 'outer';
  DECLARE seen STRING DEFAULT '';
  first: BEGIN
    DECLARE v STRING DEFAULT 'inner';
    SET seen = seen || v || ';';
    second: BEGIN
      SET v = first.v || '+';
      SET seen = seen || v || ';';
    END second;
    LEAVE first;
    SET seen = 'never';
  END first;
  SELECT v, seen;
END;

-- Handlers: by condition, by SQLSTATE, for everything; of the inner block before the outer.
BEGIN
  DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO
  BEGIN
    INSERT INTO log VALUES (100, 'divided; by zero');
    SELECT 'handled;' AS outcome;
  END;
  INSERT INTO log VALUES (99, 'before');
  SELECT 1 / 0;
  INSERT INTO log VALUES (101, 'never');
END;
SELECT * FROM log WHERE step > 50 ORDER BY step;
BEGIN
  DECLARE state STRING DEFAULT 'none';
  inner_block: BEGIN
    DECLARE EXIT HANDLER FOR SQLSTATE '42P01' SET state = 'no table';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION SET state = 'else';
    SELECT * FROM no_such_table;
  END inner_block;
  SELECT state;
END;
BEGIN
  DECLARE state STRING DEFAULT 'none';
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    SELECT concat(state, '; caught') AS outcome;
  END;
  BEGIN
    DECLARE EXIT HANDLER FOR NOT FOUND SET state = 'not found';
    SET state = 'thrown';
    SELECT CAST('abc' AS INT);
  END;
END;

-- EXECUTE IMMEDIATE within a block, and DDL built in a loop.
BEGIN
  DECLARE i INT DEFAULT 1;
  DECLARE total BIGINT DEFAULT 0;
  DECLARE part BIGINT;
  WHILE i <= 3 DO
    EXECUTE IMMEDIATE 'CREATE TABLE made_' || i || ' AS SELECT id FROM range(' || i * 10 || ')';
    EXECUTE IMMEDIATE 'SELECT count(*) FROM made_' || i INTO part;
    SET total = total + part;
    SET i = i + 1;
  END WHILE;
  EXECUTE IMMEDIATE 'SELECT ? AS total, ? AS rounds' USING total, i - 1;
END;
SHOW TABLES LIKE 'made_*';
BEGIN
  FOR t AS SELECT n FROM VALUES (1), (2), (3) AS v(n) DO
    EXECUTE IMMEDIATE 'DROP TABLE made_' || t.n;
  END FOR;
END;
SHOW TABLES LIKE 'made_*';

-- A block may end in a command, whose result is the block's.
BEGIN
  CREATE OR REPLACE TEMPORARY VIEW from_a_block AS SELECT 1 AS one;
  SHOW COLUMNS IN from_a_block;
END;
SELECT one FROM from_a_block;
DROP VIEW from_a_block;

-- What a failed block did before it failed stays done.
-- fails: CAST_INVALID_INPUT
BEGIN
  INSERT INTO log VALUES (200, 'stays');
  SELECT CAST('x;' AS INT);
  INSERT INTO log VALUES (201, 'never');
END;
SELECT * FROM log WHERE step >= 200;
-- fails: USER_RAISED_EXCEPTION
BEGIN
  IF (SELECT count(*) FROM log) > 0 THEN
    SELECT raise_error('enough; stop');
  END IF;
END;
-- fails: UNRESOLVED_COLUMN.WITHOUT_SUGGESTION
BEGIN
  BEGIN DECLARE local INT DEFAULT 1; END;
  SELECT local;
END;
-- fails: INVALID_BOOLEAN_STATEMENT
BEGIN
  WHILE 'yes;' DO SELECT 1; END WHILE;
END;
-- fails: LABELS_MISMATCH
BEGIN
  one: BEGIN SELECT 1; END two;
END;
-- fails: INVALID_LABEL_USAGE.DOES_NOT_EXIST
BEGIN LEAVE nowhere; END;

USE default;
DROP DATABASE script_blocks CASCADE;
