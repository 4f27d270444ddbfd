/* Generated from crates/ffi/src/abi/mod.rs: see tests/header.rs there. */

#ifndef MEZZ_FFI_H
#define MEZZ_FFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Changes with every change of what is declared here; `tests/header.rs` sees to that.
 */
#define MEZZ_FFI_VERSION 21

/*
 Bytes of each text in a `MezzMessage`, the end mark included.
 */
#define MEZZ_TEXT_BYTES 512

/*
 What a read of a page's place on disk has brought.
 */
typedef enum MezzDiskRead {
  /*
   What is there.
   */
  MEZZ_DISK_READ_THERE = 0,
  /*
   The relation does not reach so far.
   */
  MEZZ_DISK_READ_NOTHING = 1,
  /*
   An error: what is there is not known.
   */
  MEZZ_DISK_READ_FAILED = 2,
} MezzDiskRead;

/*
 Whether the log reaches a position.
 */
typedef enum MezzLogReach {
  /*
   It does.
   */
  MEZZ_LOG_REACH_REACHES = 0,
  /*
   It ends before, or is of another history.
   */
  MEZZ_LOG_REACH_ENDS_BEFORE = 1,
  /*
   It could not be read; the reason was logged.
   */
  MEZZ_LOG_REACH_UNREAD = 2,
} MezzLogReach;

/*
 What the flash device is doing for a process.
 */
typedef enum MezzFlashIo {
  /*
   A page is read, or what stage-out looks at.
   */
  MEZZ_FLASH_IO_READ = 0,
  /*
   A group or metadata is written.
   */
  MEZZ_FLASH_IO_WRITE = 1,
  /*
   What was written is made durable.
   */
  MEZZ_FLASH_IO_SYNC = 2,
} MezzFlashIo;

/*
 How the tier was found.
 */
typedef enum MezzAdoption {
  /*
   As it was left.
   */
  MEZZ_ADOPTION_ADOPTED = 0,
  /*
   It was emptied.
   */
  MEZZ_ADOPTION_DISCARDED = 1,
  /*
   It is new.
   */
  MEZZ_ADOPTION_FORMATTED = 2,
  /*
   Its device has failed and nobody needs it: there is none, and no other function may be called.
   */
  MEZZ_ADOPTION_UNUSABLE = 3,
} MezzAdoption;

/*
 What became of a dirty page.
 */
typedef enum MezzWritten {
  /*
   The tier has it.
   */
  MEZZ_WRITTEN_TAKEN = 0,
  /*
   The tier has it, and the caller writes it to disk as well.
   */
  MEZZ_WRITTEN_ALSO_DISK = 1,
  /*
   The caller writes it to disk, syncs that unless `mezz_is_clean`, and calls `mezz_forget`.
   */
  MEZZ_WRITTEN_REFUSED = 2,
  /*
   A device has failed; see the message.
   */
  MEZZ_WRITTEN_FAILED = 3,
} MezzWritten;

/*
 Where a page was found.
 */
typedef enum MezzFound {
  /*
   It was copied to the buffer.
   */
  MEZZ_FOUND_HERE = 0,
  /*
   The disk has it.
   */
  MEZZ_FOUND_ON_DISK = 1,
  /*
   Its only copy is damaged.
   */
  MEZZ_FOUND_LOST = 2,
  /*
   Its only copy is on a flash device that answers no read just now.
   */
  MEZZ_FOUND_SILENT = 3,
  /*
   Flash does not give it back, and a read of the disk fails: it may be lost or on disk.
   */
  MEZZ_FOUND_UNKNOWN = 4,
} MezzFound;

/*
 What became of one of several pages that were read at once.
 */
typedef enum MezzAtOnce {
  /*
   To be read by itself.
   */
  MEZZ_AT_ONCE_UNDECIDED = 0,
  /*
   It was copied to its buffer, from memory.
   */
  MEZZ_AT_ONCE_FROM_MEMORY = 1,
  /*
   It was read from flash.
   */
  MEZZ_AT_ONCE_FROM_FLASH = 2,
  /*
   The disk has it.
   */
  MEZZ_AT_ONCE_ON_DISK = 3,
} MezzAtOnce;

/*
 By what pages are read ahead.
 */
typedef enum MezzAheadWay {
  /*
   Nothing was to be read ahead so far.
   */
  MEZZ_AHEAD_WAY_NONE = 0,
  /*
   By what the text says.
   */
  MEZZ_AHEAD_WAY_SOME = 1,
  /*
   By nothing, for the reason that the text gives.
   */
  MEZZ_AHEAD_WAY_UNSUPPORTED = 2,
} MezzAheadWay;

/*
 What pages a call is about.
 */
typedef enum MezzScope {
  /*
   Every block of the fork from `block` on.
   */
  MEZZ_SCOPE_FORK_FROM = 0,
  /*
   Every fork of the relation.
   */
  MEZZ_SCOPE_RELATION = 1,
  /*
   Every relation of the database, in all tablespaces.
   */
  MEZZ_SCOPE_DATABASE = 2,
  /*
   The block alone.
   */
  MEZZ_SCOPE_BLOCK = 3,
} MezzScope;

/*
 How a wait has ended.
 */
typedef enum MezzWaited {
  /*
   What was waited for is done.
   */
  MEZZ_WAITED_DONE = 0,
  /*
   The caller had something else to do.
   */
  MEZZ_WAITED_STOPPED = 1,
  /*
   It cannot be done; see the message.
   */
  MEZZ_WAITED_FAILED = 2,
} MezzWaited;

/*
 What became of a step of a pass.
 */
typedef enum MezzStep {
  /*
   There are more.
   */
  MEZZ_STEP_MORE = 0,
  /*
   The pass is complete.
   */
  MEZZ_STEP_COMPLETE = 1,
  /*
   The device answers no read; see the message.
   */
  MEZZ_STEP_FAILED = 2,
} MezzStep;

/*
 What happened.
 */
typedef enum MezzTraceKind {
  /*
   A page was asked for that shared buffers did not have.
   */
  MEZZ_TRACE_KIND_READ = 0,
  /*
   A changed page was written.
   */
  MEZZ_TRACE_KIND_WRITE = 1,
  /*
   A page left shared buffers that nobody had changed since it was written.
   */
  MEZZ_TRACE_KIND_EVICT_CLEAN = 2,
  /*
   A page left shared buffers, and was written because of that.
   */
  MEZZ_TRACE_KIND_EVICT_DIRTY = 3,
  /*
   A transaction was committed that had a number. It has no page.
   */
  MEZZ_TRACE_KIND_COMMIT = 4,
  /*
   A checkpoint was completed. It has no page.
   */
  MEZZ_TRACE_KIND_CHECKPOINT = 5,
} MezzTraceKind;

/*
 A modelled disk under the server's relations.
 */
typedef struct MezzDisk MezzDisk;

/*
 The tier, as one process of the server sees it.
 */
typedef struct MezzHost MezzHost;

/*
 A trace that is being written.
 */
typedef struct MezzTrace MezzTrace;

/*
 The configuration. Texts end with a zero byte.
 */
typedef struct MezzSettings {
  /*
   `MEZZ_FFI_VERSION` as the caller knows it.
   */
  uint32_t version;
  /*
   Bytes of a page.
   */
  uint32_t page_bytes;
  /*
   Absolute path of the flash file or block device.
   */
  const char *flash_path;
  /*
   Bytes of flash to use.
   */
  uint64_t flash_bytes;
  /*
   Bytes of flash up to which the tier can grow; 0 for no more than that.
   */
  uint64_t flash_bytes_max;
  /*
   The data directory.
   */
  const char *data_directory;
  /*
   `face-basic`, `face-gr` or `face-gsc`.
   */
  const char *design;
  /*
   `clean`, `dirty` or `both`.
   */
  const char *admission;
  /*
   Of clean pages only those enter that were offered before, not long ago.
   */
  bool returning_only;
  /*
   `through`, `drained` or `durable`.
   */
  const char *sync_mode;
  /*
   Pages of a group; 0 for the default.
   */
  uint32_t group_pages;
  /*
   Name or file of a model that the flash device takes the time of; empty for none.
   */
  const char *flash_model;
  /*
   How many times slower than real time modelled devices are.
   */
  double time_scale;
  /*
   Blocks of one file of a relation; 0 if files are not looked at when the server starts and ends.
   */
  uint32_t segment_blocks;
  /*
   The directory within a tablespace that this release of the server uses.
   */
  const char *tablespace_directory;
} MezzSettings;

/*
 The name of a page: the parts of PostgreSQL's buffer tag.
 */
typedef struct MezzPage {
  /*
   Database.
   */
  uint32_t database;
  /*
   Tablespace.
   */
  uint32_t tablespace;
  /*
   Relation file number.
   */
  uint32_t relation;
  /*
   Fork.
   */
  uint32_t fork;
  /*
   Block.
   */
  uint32_t block;
} MezzPage;

/*
 A page on its way to disk.
 */
typedef struct MezzDiskPage {
  /*
   Its name.
   */
  struct MezzPage page;
  /*
   Its bytes, valid during the call.
   */
  const uint8_t *bytes;
  /*
   Its file did not take it.
   */
  bool refused;
} MezzDiskPage;

/*
 A position in the server's log.
 */
typedef struct MezzLogPosition {
  /*
   The position.
   */
  uint64_t lsn;
  /*
   The timeline.
   */
  uint32_t timeline;
} MezzLogPosition;

/*
 What a person is told when something cannot be done.
 */
typedef struct MezzMessage {
  /*
   The thing and the reason.
   */
  char message[MEZZ_TEXT_BYTES];
  /*
   More about it; may be empty.
   */
  char detail[MEZZ_TEXT_BYTES];
  /*
   What to do next; may be empty.
   */
  char hint[MEZZ_TEXT_BYTES];
  /*
   It is because of pages that are lost. Nothing has failed: what was asked for is refused, and
   everything else goes on.
   */
  bool lost;
  /*
   The same because the files do not take pages, which stay in the tier.
   */
  bool disk_refuses;
} MezzMessage;

/*
 What only the server can do for the tier. None of these may raise an error or jump.
 */
typedef struct MezzCallbacks {
  /*
   Writes `count` pages to their relations, in this order. Of those that could not be written `refused`
   is set; the reason was logged.
   */
  void (*write_pages)(struct MezzDiskPage *pages, uintptr_t count);
  /*
   Reads a page of a relation as it is on disk; an error was logged. Its file is synced with those that
   were written.
   */
  enum MezzDiskRead (*read_page)(struct MezzPage page, uint8_t *bytes);
  /*
   Syncs every file that `write_pages` has written, in any process. False if that failed; the reason was
   logged.
   */
  bool (*sync_pages)(void);
  /*
   Whether this process may carry out jobs now: not in a critical section, where nothing can be
   allocated.
   */
  bool (*may_work)(void);
  /*
   Whether an error of this process would end the server, as it does in redo.
   */
  bool (*error_ends_server)(void);
  /*
   Waits until `progressed` is called in any process, or some milliseconds. `seen` is `mezz_progress` as
   of when the caller looked: if it is another by now, returns at once.
   */
  void (*wait)(uint64_t seen);
  /*
   Wakes those that wait, and background workers that have nothing to do.
   */
  void (*progressed)(void);
  /*
   Keeps servers that know nothing of the tier away from the data directory, or lets them in again;
   durably. May be null.
   */
  bool (*mark_control_file)(bool dirty);
  /*
   How far the log is durable, or was redone in recovery.
   */
  struct MezzLogPosition (*log_position)(void);
  /*
   Whether the log that is about to be redone reaches so far, on a timeline of its history.
   */
  enum MezzLogReach (*log_reaches)(struct MezzLogPosition log);
  /*
   Keeps other processes from replacing the superblock, or lets them again.
   */
  void (*lock_superblock)(bool lock);
  /*
   This process waits for the flash device from now on.
   */
  void (*flash_begins)(enum MezzFlashIo io);
  /*
   It waits no longer.
   */
  void (*flash_ended)(enum MezzFlashIo io);
  /*
   Logs what the flash device said when it failed.
   */
  void (*flash_failed)(const struct MezzMessage *message);
} MezzCallbacks;

/*
 The sizes of the tier.
 */
typedef struct MezzSizes {
  /*
   Bytes of shared memory.
   */
  uint64_t memory_bytes;
  /*
   Bytes of flash.
   */
  uint64_t flash_bytes;
  /*
   Frames of the queue.
   */
  uint64_t frames;
  /*
   Pages of a group.
   */
  uint64_t group_pages;
} MezzSizes;

/*
 What the server knows when it starts.
 */
typedef struct MezzStart {
  /*
   The control file's system identifier.
   */
  uint64_t system_identifier;
  /*
   The control file's redo pointer.
   */
  uint64_t redo;
  /*
   And its timeline.
   */
  uint32_t timeline;
  /*
   Number of this process: not 0, not `UINT32_MAX`, no other process's.
   */
  uint32_t owner;
  /*
   The data directory was restored from a base backup and has not been started since.
   */
  bool from_backup;
  /*
   The control file says that pages carry checksums.
   */
  bool checksums;
  /*
   The control file says that the files lack pages, which only a tier has.
   */
  bool files_lack_pages;
  /*
   Random bytes, for the name of a new tier.
   */
  uint8_t new_uuid[16];
  /*
   Others, for the name of the session that begins.
   */
  uint8_t new_session[16];
} MezzStart;

/*
 What starting the tier did.
 */
typedef struct MezzStarted {
  /*
   How it was found.
   */
  enum MezzAdoption adoption;
  /*
   Why it was not adopted; empty if it was.
   */
  char reason[MEZZ_TEXT_BYTES];
  /*
   Pages in the tier.
   */
  uint64_t pages;
  /*
   Of these, pages newer than their disk copies.
   */
  uint64_t dirty;
  /*
   Bytes read from flash.
   */
  uint64_t bytes_read;
  /*
   The configured sync mode or admission takes effect only after a start with a drained tier.
   */
  bool mode_kept;
  /*
   Clean pages that were dropped, because their files have changed since the server ended.
   */
  uint64_t changed_pages;
  /*
   How many files that were.
   */
  uint64_t changed_files;
  /*
   The sizes that the tier has and those that are configured, if they differ: the latter take effect only
   after a start with a drained tier. Else empty.
   */
  char sizes_kept[MEZZ_TEXT_BYTES];
} MezzStarted;

/*
 What this process has read ahead since it began.
 */
typedef struct MezzAhead {
  /*
   Reads that were begun.
   */
  uint64_t begun;
  /*
   Of these, pages that a read has taken.
   */
  uint64_t used;
  /*
   Pages that had changed, or came damaged or not at all: they were read anew.
   */
  uint64_t stale;
  /*
   Pages that nobody came for.
   */
  uint64_t unused;
  /*
   Bytes of memory for it now.
   */
  uint64_t bytes;
} MezzAhead;

/*
 The state of the tier.
 */
typedef struct MezzNow {
  /*
   Whether it takes pages.
   */
  bool admits;
  /*
   The sync mode in force.
   */
  char sync_mode[MEZZ_TEXT_BYTES];
  /*
   The design in force.
   */
  char design[MEZZ_TEXT_BYTES];
  /*
   The admission in force.
   */
  char admission[MEZZ_TEXT_BYTES];
  /*
   Frames of the queue.
   */
  uint64_t frames;
  /*
   Frames up to which it can grow.
   */
  uint64_t frames_max;
  /*
   Whether a resize is under way: to how many frames, and how many more have to be appended before it
   takes effect.
   */
  bool resizing;
  /*
   See `resizing`.
   */
  uint64_t frames_wanted;
  /*
   See `resizing`.
   */
  uint64_t frames_to_go;
  /*
   Pages in staging memory.
   */
  uint64_t staged;
  /*
   Pages that no read brings back, and that only flash had.
   */
  uint64_t lost;
  /*
   Which of its numbers comes to its end, so that it takes no more pages; empty as long as none does.
   */
  char used_up[MEZZ_TEXT_BYTES];
} MezzNow;

/*
 What the tier has done since its memory was set up.
 */
typedef struct MezzStatistics {
  /*
   Lookups answered from staging memory.
   */
  uint64_t hits_memory;
  /*
   Lookups that found their page on flash.
   */
  uint64_t hits_flash;
  /*
   Lookups that found nothing.
   */
  uint64_t misses;
  /*
   Dirty pages taken.
   */
  uint64_t staged_dirty;
  /*
   Clean pages taken.
   */
  uint64_t staged_clean;
  /*
   Pages that admission did not take, clean ones that were offered for the first time among them.
   */
  uint64_t refused;
  /*
   Dirty pages that found staging memory full and made their process wait or work.
   */
  uint64_t stalls;
  /*
   Groups written.
   */
  uint64_t groups_written;
  /*
   Bytes of these.
   */
  uint64_t group_bytes_written;
  /*
   Bytes written to flash, metadata included.
   */
  uint64_t flash_bytes_written;
  /*
   Syncs of the flash device.
   */
  uint64_t flash_syncs;
  /*
   Bytes that stage-out has read from flash.
   */
  uint64_t stage_out_bytes_read;
  /*
   Pages written to disk by stage-out.
   */
  uint64_t disk_writes;
  /*
   Of these, pages that a drain asked for.
   */
  uint64_t pages_drained;
  /*
   Times that a file did not take a page; it stays in the tier.
   */
  uint64_t disk_refused;
  /*
   Syncs of the disk.
   */
  uint64_t disk_syncs;
  /*
   Pages that were appended again instead of leaving the tier.
   */
  uint64_t second_chances;
} MezzStatistics;

/*
 How far a pass over the pages has come.
 */
typedef struct MezzCursor {
  /*
   The next position.
   */
  uint64_t next;
  /*
   Where the pass ends.
   */
  uint64_t end;
} MezzCursor;

/*
 A page that the tier holds.
 */
typedef struct MezzHeld {
  /*
   Its name.
   */
  struct MezzPage page;
  /*
   Its position in the queue.
   */
  uint64_t position;
  /*
   Newer than the disk copy.
   */
  bool dirty;
  /*
   Looked up since it entered, or since its last second chance.
   */
  bool referenced;
  /*
   Not yet durable on flash.
   */
  bool staged;
  /*
   No read brings it back, and only flash had it.
   */
  bool lost;
} MezzHeld;

/*
 Bytes side by side on a modelled disk.
 */
typedef struct MezzRun {
  /*
   The first of them.
   */
  uint64_t address;
  /*
   How many.
   */
  uintptr_t bytes;
} MezzRun;

/*
 What a modelled drive has done for all its users, in its own time; what was done at time scale 0 is not
 counted.
 */
typedef struct MezzDriveUse {
  /*
   How many times slower than real time it is now.
   */
  double time_scale;
  /*
   Reads.
   */
  uint64_t reads;
  /*
   Writes.
   */
  uint64_t writes;
  /*
   Flushes.
   */
  uint64_t flushes;
  /*
   Bytes read.
   */
  uint64_t bytes_read;
  /*
   Bytes written.
   */
  uint64_t bytes_written;
  /*
   Sum of the times of reads from entry to completion.
   */
  uint64_t read_response_ns;
  /*
   Sum of the times of writes from entry to completion.
   */
  uint64_t write_response_ns;
  /*
   Sum of the times of flushes from entry to completion.
   */
  uint64_t flush_response_ns;
  /*
   By how much callers were let go too late, in total: what the machine added to the model.
   */
  uint64_t late_ns;
  /*
   Time that the spindles or channels were busy, added up.
   */
  uint64_t busy_ns;
  /*
   Time that has passed.
   */
  uint64_t elapsed_ns;
  /*
   Spindles or channels.
   */
  uint32_t servers;
} MezzDriveUse;

/*
 Something that happened.
 */
typedef struct MezzTraced {
  /*
   Nanoseconds since the trace was begun, never less than of the one before.
   */
  uint64_t time_ns;
  /*
   The page.
   */
  struct MezzPage page;
  /*
   The process that caused it.
   */
  uint32_t client;
  /*
   The number of its transaction, or 0.
   */
  uint32_t transaction;
  /*
   What happened.
   */
  enum MezzTraceKind kind;
} MezzTraced;

/*
 Opens the flash device in the process that starts the server; another server may be using it. Null if it
 cannot be used; then `message` says why.

 # Safety
 The pointers are valid during the call, the callbacks for good.
 */
struct MezzHost *mezz_open(const struct MezzSettings *given,
                           const struct MezzCallbacks *callbacks,
                           struct MezzMessage *message);

/*
 The sizes of the tier, before any of it is taken.
 */
void mezz_sizes(const struct MezzHost *host, struct MezzSizes *out);

/*
 Locks the flash device for this process and its children, unless it has. False with a message if another
 server uses it.
 */
bool mezz_lock_device(struct MezzHost *host,
                      struct MezzMessage *message);

/*
 Gives the tier its memory. `fresh` says that it is as the system gave it, zeroed, and that nobody has
 written to it: then `mezz_start` need not wipe it. Memory that held a tier before a crash is not fresh.

 # Safety
 `host` is from `mezz_open`; the memory is initialised, has `memory_bytes` of `mezz_sizes`, lies at the
 same address in all processes and is used by nothing else.
 */
void mezz_use_memory(struct MezzHost *host,
                     uint8_t *base,
                     uintptr_t bytes,
                     bool fresh);

/*
 Judges, recovers and publishes the tier, before the server's redo. False with a message if the server must
 not start.
 */
bool mezz_start(const struct MezzHost *host,
                const struct MezzStart *given,
                struct MezzStarted *out,
                struct MezzMessage *message);

/*
 Joins the tier that another process of the server has recovered. `owner` is this process's own number.
 */
bool mezz_attach(const struct MezzHost *host,
                 uint32_t owner,
                 struct MezzMessage *message);

/*
 Whether this process has recovered or attached the tier.
 */
bool mezz_is_attached(const struct MezzHost *host);

/*
 The last mark: read before it is looked up how old a page's changes are.
 */
uint64_t mezz_mark(const struct MezzHost *host);

/*
 Takes a dirty page whose log is forced. `since` is what `mezz_mark` said before it was found that no
 change in the page is older than the redo pointer of the checkpoint under way; 0 if one is.

 # Safety
 `host` is from `mezz_open` and attached; `bytes` has a page's length; `message` may be written.
 */
enum MezzWritten mezz_write(const struct MezzHost *host,
                            struct MezzPage page,
                            const uint8_t *bytes,
                            uint64_t lsn,
                            uint64_t since,
                            struct MezzMessage *message);

/*
 A clean page is about to leave the pool, and nobody else can have it yet. Whether it is to be offered when
 it has: then `token` is what [`mezz_offer`] needs. The tier has it otherwise.
 */
bool mezz_before_offer(const struct MezzHost *host,
                       struct MezzPage page,
                       uint32_t *token);

/*
 Offers a clean page that has left the pool: a copy in memory, no waiting. Whether the tier took it; not if
 anything newer was written, to the tier or past it, or the page was dropped, since `token`.

 # Safety
 `host` is from `mezz_open` and attached; `bytes` has a page's length.
 */
bool mezz_offer(const struct MezzHost *host,
                struct MezzPage page,
                const uint8_t *bytes,
                uint64_t lsn,
                uint32_t token);

/*
 Changes whenever a page that came in may have left work behind: who finds it changed by his page wakes
 whoever carries that out.
 */
uint64_t mezz_work_number(const struct MezzHost *host);

/*
 Reads a page if the tier has it.

 # Safety
 `host` is from `mezz_open` and attached; `bytes` has a page's length and may be written.
 */
enum MezzFound mezz_read(const struct MezzHost *host, struct MezzPage page, uint8_t *bytes);

/*
 Reads blocks of a fork from `page` on, as far as the tier has them: those on flash with one batch of
 requests. What a buffer has of a page that was not read says nothing.

 # Safety
 `host` is from `mezz_open` and attached; `buffers` and `found` have `count` elements, and each buffer a
 page's length, which may be written and is no other's.
 */
void mezz_read_at_once(const struct MezzHost *host,
                       struct MezzPage page,
                       uint8_t *const *buffers,
                       uintptr_t count,
                       enum MezzAtOnce *found);

/*
 Begins to read `count` blocks of a fork from `page` on that lie on flash and that this process will read
 soon; at most `depth` of them are under way at a time, and another depth than before gives up what was.
 Whether the tier has all of them, so that disk need not be asked.
 */
bool mezz_read_ahead(const struct MezzHost *host,
                     struct MezzPage page,
                     uintptr_t count,
                     uintptr_t depth);

/*
 Gives up what this process reads ahead: nobody comes for it any more.
 */
void mezz_forget_ahead(const struct MezzHost *host);

/*
 What this process has read ahead since it began.
 */
void mezz_ahead(const struct MezzHost *host, struct MezzAhead *out);

/*
 By what this process reads ahead.
 */
enum MezzAheadWay mezz_ahead_way(const struct MezzHost *host, char (*text)[MEZZ_TEXT_BYTES]);

/*
 Whether the tier never holds the only copy of a page.
 */
bool mezz_is_clean(const struct MezzHost *host);

/*
 Whether the tier may hold the only copy of a page beyond a checkpoint of the server: what it holds is then
 part of the database.
 */
bool mezz_is_durable(const struct MezzHost *host);

/*
 Calls `with` for the last page of every fork that is newer in the tier than on disk. A pass over the
 directory.
 */
void mezz_dirty_forks(const struct MezzHost *host,
                      void (*with)(struct MezzPage last));

/*
 Waits until no write of these pages to disk is under way.
 */
bool mezz_await_stage_out(const struct MezzHost *host,
                          struct MezzPage page,
                          enum MezzScope scope,
                          struct MezzMessage *message);

/*
 Forgets a page that was refused and is on disk. `again` says whether stage-out may have written an older
 version over it: then the caller waits for that, writes the page once more, and calls again.
 */
bool mezz_forget(const struct MezzHost *host,
                 struct MezzPage page,
                 bool *again,
                 struct MezzMessage *message);

/*
 Forgets pages that are dropped, and waits until none of them can come back.
 */
bool mezz_drop(const struct MezzHost *host,
               struct MezzPage page,
               enum MezzScope scope,
               struct MezzMessage *message);

/*
 Forgets what the tier has of a block that is about to be written past it; what is newer than the disk goes
 there first.
 */
bool mezz_overwrite(const struct MezzHost *host,
                    struct MezzPage page,
                    struct MezzMessage *message);

/*
 Gives up a page that is lost: disk holds what no server accepts, durably, and the tier forgets it. Nobody
 else writes the page, or has it, meanwhile. False if it is not lost, or a device does not say; then
 nothing was changed, and `message` has the reason.
 */
bool mezz_give_up_page(const struct MezzHost *host,
                       struct MezzPage page,
                       struct MezzMessage *message);

/*
 Has the newest version of these pages written to disk and synced.
 */
bool mezz_flush(const struct MezzHost *host,
                struct MezzPage page,
                enum MezzScope scope,
                struct MezzMessage *message);

/*
 Carries out one job; with `flash_writes` only one that writes to flash, which others then need not wait
 for. False if there is nothing to do now.
 */
bool mezz_work(const struct MezzHost *host,
               bool flash_writes);

/*
 A number that changes whenever room was made in the tier.
 */
uint64_t mezz_progress(const struct MezzHost *host);

/*
 How busy the disk is with what others wait for, in thousandths of its time: stage-out takes the rest.
 */
void mezz_disk_busy(const struct MezzHost *host,
                    uint32_t permille);

/*
 Has stage-out try once more what the files have refused, if it rests for that. Called now and then.
 */
void mezz_retry_disk(const struct MezzHost *host);

/*
 Whether a device under the tier has failed; then `message` says which, and nothing more becomes durable.
 */
bool mezz_has_failed(const struct MezzHost *host,
                     struct MezzMessage *message);

/*
 Gives the tier up after a failure of its device: what it has alone is written to disk and synced. Nobody
 else writes to disk for the tier, or past it, meanwhile. False if the server must restart; then `message`
 says why.
 */
bool mezz_give_up(const struct MezzHost *host,
                  uint64_t *written,
                  struct MezzMessage *message);

/*
 A checkpoint has chosen its redo pointer, and marked the pages in the pool that are dirty.
 */
void mezz_checkpoint_marked(const struct MezzHost *host);

/*
 A checkpoint has written these pages. With `all`, the disk is made current.
 */
bool mezz_checkpoint_written(const struct MezzHost *host, bool all, struct MezzMessage *message);

/*
 The server's log goes on on this timeline: pages that come in from now on are of it.
 */
void mezz_follows_timeline(const struct MezzHost *host, uint32_t timeline);

/*
 The server's log is durable up to this position: before a page comes in that may tell of what lies there.
 */
void mezz_log_flushed(const struct MezzHost *host,
                      uint64_t lsn);

/*
 A checkpoint has synced its files; the control file will name this redo pointer.
 */
bool mezz_checkpoint_synced(const struct MezzHost *host,
                            uint64_t redo,
                            uint32_t timeline,
                            struct MezzMessage *message);

/*
 The control file names this redo pointer.
 */
bool mezz_checkpoint_done(const struct MezzHost *host,
                          uint64_t redo,
                          uint32_t timeline,
                          struct MezzMessage *message);

/*
 Leaves the tier in order; with `drain` the disk is made current first. `current` says whether it is. If
 pages are lost it cannot be: the tier is then left in order with them, which is no failure, and `message`
 says so (`lost`).
 */
bool mezz_close(const struct MezzHost *host,
                bool drain,
                bool *current,
                struct MezzMessage *message);

/*
 Has every page that is newer than its disk copy written to disk and synced.
 */
bool mezz_drain(const struct MezzHost *host, struct MezzMessage *message);

/*
 Has the newest version of these pages, or of all (`page` is null), written to disk and synced, and waits
 for it unless `stop` says that the caller has something else to do. The drain goes on without him.
 */
enum MezzWaited mezz_drain_unless(const struct MezzHost *host,
                                  const struct MezzPage *page,
                                  enum MezzScope scope,
                                  bool (*stop)(void),
                                  struct MezzMessage *message);

/*
 Stops taking pages, or takes them again.
 */
void mezz_admit(const struct MezzHost *host, bool admit);

/*
 Asks for a queue that takes so many bytes of flash; it takes effect when the queue has come round.
 */
bool mezz_resize(const struct MezzHost *host, uint64_t bytes, struct MezzMessage *message);

/*
 Pages in the tier, and how many of them are newer than their disk copies: a pass over the directory.
 */
void mezz_count_pages(const struct MezzHost *host,
                      uint64_t *pages,
                      uint64_t *dirty);

/*
 The state of the tier now.
 */
void mezz_now(const struct MezzHost *host, struct MezzNow *out);

/*
 Copies the counters of the tier.
 */
void mezz_statistics(const struct MezzHost *host, struct MezzStatistics *out);

/*
 Begins a pass over the pages that the tier holds now.
 */
void mezz_first_page(const struct MezzHost *host, struct MezzCursor *out);

/*
 Looks at up to `room` frames and copies the pages found there, which may be none. False when the pass is
 complete.

 # Safety
 `host` is from `mezz_open` and attached; `pages` has room for `room` pages.
 */
bool mezz_pages(const struct MezzHost *host,
                struct MezzCursor *cursor,
                struct MezzHeld *pages,
                uintptr_t room,
                uintptr_t *count);

/*
 Reads what is on flash in up to `room` frames and copies the pages that are damaged; `checked` is how many
 were read.

 # Safety
 As for `mezz_pages`; `message` may be written.
 */
enum MezzStep mezz_verify(const struct MezzHost *host,
                          struct MezzCursor *cursor,
                          struct MezzHeld *damaged,
                          uintptr_t room,
                          uintptr_t *count,
                          uint64_t *checked,
                          struct MezzMessage *message);

/*
 Opens a modelled disk in the process that starts the server. Arms move `spread` times as far as blocks are
 apart, within the share `span` of the disk. Null if there is no such model; then `message` says so.

 # Safety
 `name` ends with a zero byte; `message` may be written.
 */
struct MezzDisk *mezz_disk_open(const char *name,
                                double time_scale,
                                double spread,
                                double span,
                                struct MezzMessage *message);

/*
 Returns when the modelled disk would have read `bytes` bytes from `address`.
 */
void mezz_disk_read(const struct MezzDisk *disk, uint64_t address, uintptr_t bytes);

/*
 Returns when the modelled disk would have written `bytes` bytes at `address`.
 */
void mezz_disk_write(const struct MezzDisk *disk, uint64_t address, uintptr_t bytes);

/*
 Returns when the modelled disk would have written all of these, handed to it together.

 # Safety
 `runs` points to `count` of them.
 */
void mezz_disk_write_together(const struct MezzDisk *disk,
                              const struct MezzRun *runs,
                              uintptr_t count);

/*
 Changes how many times slower than real time the modelled disk is, for all processes; 0 = no delay.
 */
void mezz_disk_set_time_scale(const struct MezzDisk *disk, double time_scale);

/*
 What the modelled disk has done for all processes.
 */
void mezz_disk_used(const struct MezzDisk *disk, struct MezzDriveUse *out);

/*
 Changes how many times slower than real time the tier's modelled drive is, for all processes. False
 without one.
 */
bool mezz_flash_set_time_scale(const struct MezzHost *host, double time_scale);

/*
 What the tier's modelled drive has done for all processes. False without one.
 */
bool mezz_flash_used(const struct MezzHost *host, struct MezzDriveUse *out);

/*
 Returns when the modelled disk would have completed a flush.
 */
void mezz_disk_flush(const struct MezzDisk *disk);

/*
 Begins a trace at `path`, where there is nothing yet, whose time 0 is now. NULL if that cannot be.

 # Safety
 `path` ends with a zero byte.
 */
struct MezzTrace *mezz_trace_create(const char *path,
                                    uint32_t page_bytes,
                                    struct MezzMessage *message);

/*
 Adds `count` events. After a failure nothing more can be added; what was written stays under another name,
 which the message tells.

 # Safety
 `events` has so many.
 */
bool mezz_trace_add(struct MezzTrace *trace,
                    const struct MezzTraced *events,
                    uintptr_t count,
                    struct MezzMessage *message);

/*
 Hands what was added to the operating system: a trace of a process that ends now can be read so far.
 */
bool mezz_trace_flush(struct MezzTrace *trace,
                      struct MezzMessage *message);

/*
 Completes the trace and frees it. Without an event there is no file, and `events` and `bytes` are 0.

 # Safety
 `trace` is from `mezz_trace_create` and is not used again.
 */
bool mezz_trace_finish(struct MezzTrace *trace,
                       uint64_t *events,
                       uint64_t *bytes,
                       struct MezzMessage *message);

#endif  /* MEZZ_FFI_H */
