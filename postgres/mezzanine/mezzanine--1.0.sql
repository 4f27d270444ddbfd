/* mezzanine--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION mezzanine" to load this file. \quit

-- One row: the tier as it is, and what it did since stats_reset. Times are in milliseconds.
CREATE FUNCTION pg_stat_get_mezzanine(
    OUT state text,
    OUT failure text,
    OUT adoption text,
    OUT adoption_reason text,
    OUT started_at timestamptz,
    OUT start_time double precision,
    OUT sync_mode text,
    OUT design text,
    OUT admission text,
    OUT frames bigint,
    OUT frames_max bigint,
    OUT frames_wanted bigint,
    OUT frames_to_go bigint,
    OUT pages bigint,
    OUT dirty_pages bigint,
    OUT staged_pages bigint,
    OUT lost_pages bigint,
    OUT used_up text,
    OUT hits_memory bigint,
    OUT hits_flash bigint,
    OUT misses bigint,
    OUT hit_ratio double precision,
    OUT pages_in_dirty bigint,
    OUT pages_in_clean bigint,
    OUT pages_refused bigint,
    OUT stalls bigint,
    OUT group_writes bigint,
    OUT group_bytes_mean double precision,
    OUT flash_bytes_written bigint,
    OUT flash_syncs bigint,
    OUT flash_reads bigint,
    OUT flash_read_time double precision,
    OUT flash_write_time double precision,
    OUT flash_sync_time double precision,
    OUT prefetches bigint,
    OUT prefetches_used bigint,
    OUT prefetches_stale bigint,
    OUT prefetches_unused bigint,
    OUT prefetch_bytes bigint,
    OUT disk_writes bigint,
    OUT pages_drained bigint,
    OUT disk_writes_refused bigint,
    OUT second_chances bigint,
    OUT write_reduction double precision,
    OUT disk_syncs bigint,
    OUT disk_reads bigint,
    OUT disk_read_time double precision,
    OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME', 'pg_stat_get_mezzanine'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_stat_mezzanine AS
    SELECT * FROM pg_stat_get_mezzanine();

-- Every page in the tier, in the order in which it will leave.
CREATE FUNCTION mezzanine_frames(
    OUT "position" bigint,
    OUT reldatabase oid,
    OUT reltablespace oid,
    OUT relfilenode oid,
    OUT relforknumber smallint,
    OUT relblocknumber bigint,
    OUT isdirty boolean,
    OUT isreferenced boolean,
    OUT isstaged boolean,
    OUT islost boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mezzanine_frames'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE VIEW pg_mezzanine_frames AS
    SELECT * FROM mezzanine_frames();

-- Pages of each relation of all databases.
CREATE FUNCTION mezzanine_relations(
    OUT reldatabase oid,
    OUT reltablespace oid,
    OUT relfilenode oid,
    OUT pages bigint,
    OUT dirty_pages bigint,
    OUT staged_pages bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mezzanine_relations'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

-- Relations of the current database and shared ones; without a name if they were dropped or rewritten meanwhile.
CREATE VIEW pg_mezzanine_relations AS
    SELECT pg_catalog.pg_filenode_relation(r.reltablespace, r.relfilenode) AS relation,
           r.reltablespace, r.relfilenode, r.pages, r.dirty_pages, r.staged_pages
    FROM mezzanine_relations() r
    WHERE r.reldatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d
                                WHERE d.datname = pg_catalog.current_database()));

CREATE FUNCTION mezzanine_reset_stats() RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_reset_stats'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

-- Writes every page that is newer in the tier than on disk to disk; returns how many there were.
CREATE FUNCTION mezzanine_drain() RETURNS bigint
AS 'MODULE_PATHNAME', 'mezzanine_drain'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- The same for one relation.
CREATE FUNCTION mezzanine_flush(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'mezzanine_flush'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- Takes no more pages, and writes those that are newer than on disk to disk.
CREATE FUNCTION mezzanine_disable() RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_disable'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION mezzanine_enable() RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_enable'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- Grows or shrinks the tier to so many bytes of flash, up to mezzanine.flash_size_max, while it is in use.
CREATE FUNCTION mezzanine_resize(bytes bigint) RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_resize'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- Goes on without a block that is lost: its place on disk gets a page that no server accepts. Not undone by a rollback.
CREATE FUNCTION mezzanine_give_up(relation regclass, block bigint, fork text DEFAULT 'main') RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_give_up'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- The same by the numbers that pg_mezzanine_frames and the error of a read give, for a relation of another database, or one of the shared
-- catalogs (tablespace 1664, database 0). Nobody else may be connected to the relation's database.
CREATE FUNCTION mezzanine_give_up(reltablespace oid, reldatabase oid, relfilenode oid, block bigint, fork text DEFAULT 'main') RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_give_up_numbers'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- Reads every page on flash and compares it with its checksum.
CREATE FUNCTION mezzanine_verify(OUT checked bigint, OUT damaged bigint)
AS 'MODULE_PATHNAME', 'mezzanine_verify'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- Records what shared buffers read, write and give up, commits and checkpoints, to a new file on the server, until it is stopped, for so many
-- seconds (0: for ever) at most. `mezz trace` reads it.
CREATE FUNCTION mezzanine_trace_start(path text, seconds double precision DEFAULT 0) RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_trace_start'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- Completes the file: how many events it has, how many were lost because they came faster than they could be written, and its length.
CREATE FUNCTION mezzanine_trace_stop(OUT events bigint, OUT lost bigint, OUT file_bytes bigint)
AS 'MODULE_PATHNAME', 'mezzanine_trace_stop'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- For benchmarks on modelled devices: has them take so many times as long as real ones (0: no time), for all sessions.
CREATE FUNCTION mezzanine_model_time_scale(time_scale double precision) RETURNS void
AS 'MODULE_PATHNAME', 'mezzanine_model_time_scale'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

-- What each modelled device has done, in its own time; what was done at time scale 0 is not counted.
CREATE FUNCTION mezzanine_model_use(
    OUT device text,
    OUT time_scale double precision,
    OUT reads bigint,
    OUT writes bigint,
    OUT flushes bigint,
    OUT bytes_read bigint,
    OUT bytes_written bigint,
    OUT read_response_ns bigint,
    OUT write_response_ns bigint,
    OUT flush_response_ns bigint,
    OUT late_ns bigint,
    OUT busy_ns bigint,
    OUT elapsed_ns bigint,
    OUT servers integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'mezzanine_model_use'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

-- Looking costs a pass over the tier's directory and shows other databases' sizes: for monitoring.
REVOKE ALL ON FUNCTION pg_stat_get_mezzanine() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_frames() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_relations() FROM PUBLIC;
REVOKE ALL ON pg_stat_mezzanine, pg_mezzanine_frames, pg_mezzanine_relations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pg_stat_get_mezzanine() TO pg_monitor;
GRANT EXECUTE ON FUNCTION mezzanine_frames() TO pg_monitor;
GRANT EXECUTE ON FUNCTION mezzanine_relations() TO pg_monitor;
GRANT EXECUTE ON FUNCTION mezzanine_model_use() TO pg_monitor;
GRANT SELECT ON pg_stat_mezzanine, pg_mezzanine_frames, pg_mezzanine_relations TO pg_monitor;

-- Changing anything is for superusers, and for whom they grant it to.
REVOKE ALL ON FUNCTION mezzanine_reset_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_model_time_scale(double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_model_use() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_drain() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_flush(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_disable() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_enable() FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_resize(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_give_up(regclass, bigint, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_give_up(oid, oid, oid, bigint, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_verify() FROM PUBLIC;
-- It writes a file wherever the server may.
REVOKE ALL ON FUNCTION mezzanine_trace_start(text, double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION mezzanine_trace_stop() FROM PUBLIC;
