-- Inserts, indices, joins, updates and deletes in memory.
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL, note TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, day INTEGER, amount INTEGER);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO item SELECT i, 'item ' || i, i * 7 % 101, i * 0.25, printf('%0*d', i % 120, i) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 180000)
INSERT INTO sale SELECT i, i * 7919 % 60000 + 1, i % 365, i % 13 FROM n;
COMMIT;
CREATE INDEX item_kind ON item(kind, price);
CREATE INDEX item_name ON item(name);
CREATE INDEX sale_item ON sale(item);
SELECT kind, count(*), sum(amount * price) FROM sale JOIN item ON item.id = sale.item GROUP BY kind ORDER BY 3 DESC LIMIT 5;
SELECT count(*) FROM item WHERE name LIKE 'item 1%' AND note GLOB '*99*';
UPDATE item SET note = upper(note) || name WHERE kind < 50;
DELETE FROM sale WHERE day % 3 = 0;
SELECT day, group_concat(item) FROM (SELECT day, item FROM sale WHERE day < 4 ORDER BY item, id) GROUP BY day ORDER BY day;
SELECT sum(length(note)), max(name) FROM item;
