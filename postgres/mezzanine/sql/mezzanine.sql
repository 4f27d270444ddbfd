-- Views and functions of the extension, and who may use them. The server has 1 MB of shared buffers and a tier of 64 MB in sync
-- mode durable.
CREATE EXTENSION mezzanine;
\d pg_stat_mezzanine
\d pg_mezzanine_relations
\d pg_mezzanine_frames

-- A table larger than shared buffers goes through the tier.
CREATE TABLE big AS SELECT g AS id, repeat('x', 500) AS filler FROM generate_series(1, 20000) g;
CREATE INDEX big_id ON big (id);
CHECKPOINT;
SELECT count(*), sum(id) FROM big;

SELECT state, failure, adoption, sync_mode, design, admission, start_time >= 0 AS timed,
       started_at <= now() AS started, stats_reset <= now() AS reset
FROM pg_stat_mezzanine;
SELECT frames > 1000 AS frames, pages BETWEEN 1000 AND frames AS pages, dirty_pages BETWEEN 1000 AND pages AS dirty,
       staged_pages >= 0 AS staged, hits_flash + hits_memory > 0 AS hits, misses > 0 AS misses,
       hit_ratio = (hits_memory + hits_flash)::float8 / (hits_memory + hits_flash + misses) AS ratio,
       pages_in_dirty > 1000 AS dirty_in, pages_refused, group_writes > 10 AS groups,
       group_bytes_mean BETWEEN 8192 AND 65 * 8192 AS mean, flash_bytes_written > 8000000 AS written,
       flash_syncs > 0 AS syncs, flash_reads > 0 AS reads, flash_read_time > 0 AS read_time, flash_write_time > 0 AS write_time,
       write_reduction BETWEEN 0 AND 1 AS reduction, disk_reads > 0 AS disk_reads, disk_read_time > 0 AS disk_read_time
FROM pg_stat_mezzanine;

-- Pages by relation: those of big that are not in shared buffers alone.
SELECT relation, pages > 1000 AS pages, dirty_pages > 1000 AS dirty
FROM pg_mezzanine_relations WHERE relation = 'big'::regclass;
SELECT relation, relfilenode = pg_relation_filenode(relation) AS found
FROM pg_mezzanine_relations WHERE relation IN ('big_id'::regclass, 'pg_database'::regclass) ORDER BY relation::text;
SELECT count(*) = count(DISTINCT (reldatabase, reltablespace, relfilenode, relforknumber, relblocknumber)) AS once,
       count(*) FILTER (WHERE isdirty) > 1000 AS dirty, bool_or(isreferenced) AS referenced, count(*) > 1000 AS pages
FROM pg_mezzanine_frames;
-- In the order of the queue.
SELECT count(*) AS disordered
FROM (SELECT "position" < lag("position") OVER () AS before FROM pg_mezzanine_frames) f WHERE before;

-- What is written to disk counts as clean.
SELECT mezzanine_flush('big') > 1000 AS flushed;
SELECT dirty_pages FROM pg_mezzanine_relations WHERE relation = 'big'::regclass;
SELECT mezzanine_flush('big') AS flushed_again;
SELECT dirty_pages > 0 AS others_are_left FROM pg_stat_mezzanine;
SELECT mezzanine_drain() > 0 AS drained;
SELECT mezzanine_drain() BETWEEN 0 AND 20 AS nothing_to_drain;
SELECT disk_writes > 1000 AS written, pages_drained > 1000 AS drained, disk_syncs > 0 AS synced FROM pg_stat_mezzanine;

-- Relations without pages, or whose pages never enter.
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE VIEW shown AS SELECT 1;
CREATE UNLOGGED TABLE unlogged AS SELECT 1;
CREATE TEMPORARY TABLE temporary AS SELECT 1;
SELECT mezzanine_flush('parted');
SELECT mezzanine_flush('shown');
SELECT mezzanine_flush('unlogged'), mezzanine_flush('temporary'), mezzanine_flush(NULL);
SELECT mezzanine_flush('nowhere');
SELECT mezzanine_flush(1::regclass);

SELECT checked > 1000 AS checked, damaged FROM mezzanine_verify();
SELECT mezzanine_resize(pg_size_bytes('1TB')) IS NULL AS resized;
SELECT frames = frames_max AS no_room, frames_wanted, frames_to_go FROM pg_stat_mezzanine;

-- Disabled, it takes nothing and answers still.
SELECT mezzanine_disable();
SELECT mezzanine_disable();
SELECT state, dirty_pages, pages > 1000 AS pages_stay FROM pg_stat_mezzanine;
SELECT mezzanine_reset_stats();
UPDATE big SET id = id + 1;
SELECT count(*), sum(id) FROM big;
SELECT pages_in_dirty, pages_in_clean, pages_refused > 0 AS refused, dirty_pages FROM pg_stat_mezzanine;
SELECT mezzanine_enable();
SELECT mezzanine_enable();
UPDATE big SET id = id + 1;
SELECT count(*), sum(id) FROM big;
SELECT state, pages_in_dirty > 1000 AS dirty_in, dirty_pages > 1000 AS dirty FROM pg_stat_mezzanine;

-- Resetting the counters leaves what is there.
SELECT stats_reset AS before FROM pg_stat_mezzanine \gset
SELECT mezzanine_reset_stats();
SELECT stats_reset > :'before' AS later, pages_in_dirty < 100 AS counters, pages > 1000 AS pages FROM pg_stat_mezzanine;

-- What is dropped leaves the tier.
SELECT pg_relation_filenode('big') AS big, pg_relation_filenode('big_id') AS big_id \gset
DROP TABLE big;
SELECT count(*) FROM pg_mezzanine_frames WHERE relfilenode IN (:big, :big_id);

-- Wait events have names.
SELECT name FROM pg_wait_events WHERE type = 'Extension' AND name LIKE 'Mezzanine%' ORDER BY name COLLATE "C";
DO $$
BEGIN
    FOR i IN 1..100 LOOP
        PERFORM pg_stat_clear_snapshot();
        IF EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'mezzanine' AND wait_event = 'MezzanineWorkerMain') THEN
            RAISE NOTICE 'the worker waits for work';
            RETURN;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RAISE 'the worker is not seen to wait for work';
END $$;

-- Monitoring needs pg_monitor, changing anything a superuser or a grant.
CREATE ROLE regress_mezzanine_monitor IN ROLE pg_monitor;
CREATE ROLE regress_mezzanine_nobody;
SET ROLE regress_mezzanine_monitor;
SELECT count(*) FROM pg_stat_mezzanine;
SELECT count(*) > 0 AS relations FROM pg_mezzanine_relations;
SELECT count(*) > 0 AS frames FROM pg_mezzanine_frames;
SELECT current_setting('mezzanine.flash_path') <> '' AS path;
SELECT mezzanine_drain();
SELECT mezzanine_flush('pg_class');
SELECT mezzanine_give_up('pg_class', 0);
SELECT mezzanine_give_up(1664, 0, 1262, 0);
SELECT mezzanine_disable();
SELECT mezzanine_enable();
SELECT mezzanine_verify();
SELECT mezzanine_resize(1);
SELECT mezzanine_reset_stats();
SET ROLE regress_mezzanine_nobody;
SELECT count(*) FROM pg_stat_mezzanine;
SELECT count(*) FROM pg_mezzanine_relations;
SELECT count(*) FROM pg_mezzanine_frames;
SELECT pg_stat_get_mezzanine();
SELECT mezzanine_relations();
SELECT mezzanine_frames();
SELECT current_setting('mezzanine.flash_path');
RESET ROLE;
GRANT EXECUTE ON FUNCTION mezzanine_reset_stats() TO regress_mezzanine_nobody;
SET ROLE regress_mezzanine_nobody;
SELECT mezzanine_reset_stats();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION mezzanine_reset_stats() FROM regress_mezzanine_nobody;
DROP ROLE regress_mezzanine_monitor, regress_mezzanine_nobody;

-- Settings.
SELECT name, unit, context, vartype, boot_val, min_val, max_val, enumvals
FROM pg_settings WHERE name LIKE 'mezzanine.%' ORDER BY name COLLATE "C";
SET mezzanine.sync_mode = 'through';
ALTER SYSTEM SET mezzanine.flash_path = 'flash';
ALTER SYSTEM SET mezzanine.group_pages = 1000;
SET mezzanine.nothing = 1;

DROP EXTENSION mezzanine;
