SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history);
CREATE TABLE item AS SELECT i AS id, 'item ' || i AS name, i * 7 % 101 AS kind, jsonb_build_object('n', i, 'l', array[i, i + 1]) AS note FROM generate_series(1, 60000) AS i;
CREATE INDEX ON item (kind, name);
SELECT kind, count(*), sum((note->'l'->>1)::int), md5(string_agg(name, ',' ORDER BY id)) FROM item WHERE kind < 12 GROUP BY kind ORDER BY kind;
SELECT md5(string_agg(a.name || b.id, ',' ORDER BY a.id, b.id)) FROM item a JOIN item b ON a.kind = b.kind AND a.id < 300 AND b.id < 3000;
DO $$ DECLARE t text := ''; BEGIN FOR i IN 1..3000 LOOP t := t || md5(i::text); END LOOP; PERFORM set_config('a.b', md5(t), false); END $$;
SELECT current_setting('a.b');
VACUUM FULL ANALYZE item;
SELECT regexp_replace(string_agg(name, ' ' ORDER BY name), '[0-9]{4,}', '', 'g') FROM item WHERE id % 2000 = 0;
