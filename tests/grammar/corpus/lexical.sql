SELECT ';'
%%
SELECT ";"
%%
SELECT `;` FROM t
%%
SELECT 'a''b;c'
%%
SELECT 'a\';b'
%%
SELECT "a\";b"
%%
SELECT 'a\\', ';', '\\\';'
%%
SELECT "it's; fine", 'say "hi;"'
%%
SELECT r'\', ';'
%%
SELECT R"\", ';', r'a\;b', r"it's;"
%%
SELECT r'--', '--', "/*", '*/;', `--;/*`
%%
SELECT `a``;b` FROM `--`
%%
SELECT 'two
lines;
of text'
%%
SELECT '
%
;
'
%%
-- a comment; with a semicolon
SELECT 1
%%
-- one \
SELECT nothing; still the comment
SELECT 2
%%
SELECT 3 -- goes on \
; and on \
; to here
%%
-- a backslash \ inside; no continuation
SELECT 4
%%
SELECT 5 -- it's a "comment; with `quotes
%%
/* bracketed; */ SELECT 6
%%
/* outer /* inner; */ still; */ SELECT 7
%%
/* /* /* three */ ; */ ; */ SELECT 8 /**/ /***/ /* * / ; */
%%
SELECT /* it's; */ 9
%%
/* -- ; */ SELECT 10 -- /* ;
%%
/*
 * header; with
 * several lines
 */
SELECT 11
%%
SELECT 12 /* ; */ -- ;
%%
SELECT 1 /* a *//* b; */ + 2
%%
SELECT 13 /*/ ; /*/ */ */
%%
SELECT /*+ BROADCAST(t) */ '/*+ ; */' FROM t -- /*+ ;
%%
SELECT --+ no hint; only a comment
14
%%
SELECT 1--;
%%
SELECT '--', 1 -- ';'
%%
SELECT '\u003B\073\x3b\Z\0;'
%%
SELECT '\%;\_'
%%
SELECT 'a' ';' "b;" 'c'
%%
SELECT '', "", '''', """", '\'', "\""
%%
SELECT ''';''', """;"""
%%
SELECT x'3B', X"3b" FROM t
%%
SELECT 1e+5,r'\', ';'
%%
SELECT 1.5, r'\;'
%%
SELECT * FROM csv.`s3://bucket/a;b--c/*`
%%
SELECT 1 AS a　, 2 AS b
%%
SELECT 1 AS c
%%
SELECT 'ſ;', 'ß;', 'İ;' AS `ı`
%%
ſELECT ';'
%%
SELECT '𝔘𝔫𝔦;' AS `𝔘;`, '한국어; 日本語; עברית'
%%
SELECT 'é;' -- combining ; é
%%
SELECT '{{ ; }}', '{% ; %}', '{# ; #}', '$$;$$'
%%
SELECT '${not_a_variable;}'
%%
SELECT 1 -- \\
%%
SELECT 1 /* \*/, ';'
%%
SELECT "\\", ";", '\\', ';'
%%
SELECT '-- \
;', 2
%%
/* one */ -- two
/* three; */
SELECT 15
/* four; */ -- five;
%%
SELECT map('a;', 1)['a;'], array(';')[0], j:['k;'] FROM t
%%
SELECT a-- b; c
+ 1 FROM t
%%
SELECT a - -1, a*-1, a/-1 FROM t
%%
SELECT DATE'2024-01-01', DATE"2024-01-01",';'
%%
SELECT 'END; BEGIN; CASE' AS `BEGIN; END`
%%
select begin, ';end' from t
