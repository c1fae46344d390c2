CREATE TABLE item ENGINE=InnoDB AS SELECT seq AS id, CONCAT('item ', seq) AS name, seq * 7 % 101 AS kind FROM seq_1_to_40000;
CREATE INDEX kind ON item (kind, name);
SET SESSION group_concat_max_len = 10000000;
SELECT kind, COUNT(*), MD5(GROUP_CONCAT(name ORDER BY id)) FROM item WHERE kind < 12 GROUP BY kind ORDER BY kind;
SELECT MD5(GROUP_CONCAT(CONCAT(a.name, b.id) ORDER BY a.id, b.id)) FROM item a JOIN item b ON a.kind = b.kind AND a.id < 300 AND b.id < 3000;
WITH RECURSIVE t(n, s) AS (SELECT 1, CAST('x' AS CHAR(2000)) UNION ALL SELECT n + 1, CONCAT(s, n) FROM t WHERE n < 400) SELECT MD5(s) FROM t WHERE n = 400;
SELECT JSON_EXTRACT(JSON_ARRAYAGG(name), '$[777]') FROM item;
ALTER TABLE item ADD COLUMN extra TEXT DEFAULT 'nothing', ALGORITHM=COPY;
CHECKSUM TABLE item;
