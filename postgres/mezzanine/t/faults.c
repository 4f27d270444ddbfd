/*
 * faults.c
 *	  Loaded before the C library: has writes and syncs of some files fail, and
 *	  remembers how long files were when they were synced.
 *
 * MEZZ_FAULTS names a file of lines "write TEXT", "sync TEXT" or "read TEXT":
 * that call fails with EIO for files whose path has TEXT in it; "full TEXT":
 * what would make such a file longer fails with ENOSPC; "thin TEXT": every write
 * does, as where a write in place needs new space; "open TEXT": it cannot be
 * opened, with ENODEV, as where a device has gone.  It is looked up at each
 * call, so faults come and go while the server runs.
 *
 * MEZZ_SYNCED names a file to which every sync that succeeded adds the line
 * "LENGTH PATH".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int
path_of(int fd, char *path)
{
	char		link[64];
	ssize_t		length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, PATH_MAX - 1);
	if (length < 0)
		return 0;
	path[length] = '\0';
	return 1;
}

static int
fails_on(const char *call, const char *path)
{
	const char *name = getenv("MEZZ_FAULTS");
	char		line[PATH_MAX + 16];
	size_t		length = strlen(call);
	int			found = 0;
	int			saved = errno;
	FILE	   *faults;

	if (name == NULL || (faults = fopen(name, "r")) == NULL)
	{
		errno = saved;
		return 0;
	}
	while (!found && fgets(line, sizeof(line), faults))
	{
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, call, length) == 0 && line[length] == ' ' &&
			strstr(path, line + length + 1) != NULL;
	}
	fclose(faults);
	errno = found ? EIO : saved;
	return found;
}

static int
fails(const char *call, int fd)
{
	char		path[PATH_MAX];

	return path_of(fd, path) && fails_on(call, path);
}

static int
has_gone(const char *path)
{
	char		target[PATH_MAX];
	ssize_t		length = readlink(path, target, sizeof(target) - 1);

	/* Also by the descriptor that it is open as. */
	target[length < 0 ? 0 : length] = '\0';
	if (!fails_on("open", path) && !fails_on("open", target))
		return 0;
	errno = ENODEV;
	return 1;
}

static int
write_fails(int fd)
{
	if (fails("write", fd))
		return 1;
	if (!fails("thin", fd))
		return 0;
	errno = ENOSPC;
	return 1;
}

static void
remember(int fd)
{
	const char *name = getenv("MEZZ_SYNCED");
	char		path[PATH_MAX];
	char		line[PATH_MAX + 32];
	struct stat status;
	int			log;

	if (name == NULL || !path_of(fd, path) || fstat(fd, &status) != 0)
		return;
	log = open(name, O_WRONLY | O_APPEND | O_CREAT, 0600);
	if (log < 0)
		return;
	snprintf(line, sizeof(line), "%lld %s\n", (long long) status.st_size, path);
	if (write(log, line, strlen(line)) < 0)
		abort();
	close(log);
}

/* Whether a disk is full that would have to hold a file up to here. */
static int
is_full(int fd, off64_t end)
{
	struct stat status;

	if (fstat(fd, &status) != 0 || end <= status.st_size || !fails("full", fd))
		return 0;
	errno = ENOSPC;
	return 1;
}

static off64_t
length_of(const struct iovec *iov, int count)
{
	off64_t		length = 0;

	for (int i = 0; i < count; i++)
		length += iov[i].iov_len;
	return length;
}

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

int
open64(const char *path, int flags,...)
{
	va_list		more;
	mode_t		mode = 0;

	va_start(more, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(more, mode_t);
	va_end(more);
	return has_gone(path) ? -1 : REAL(open64) (path, flags, mode);
}

int
fsync(int fd)
{
	int			result = fails("sync", fd) ? -1 : REAL(fsync) (fd);

	if (result == 0)
		remember(fd);
	return result;
}

int
fdatasync(int fd)
{
	int			result = fails("sync", fd) ? -1 : REAL(fdatasync) (fd);

	if (result == 0)
		remember(fd);
	return result;
}

ssize_t
pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
	if (write_fails(fd) || is_full(fd, offset + count))
		return -1;
	return REAL(pwrite) (fd, bytes, count, offset);
}

ssize_t
pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
	if (write_fails(fd) || is_full(fd, offset + count))
		return -1;
	return REAL(pwrite64) (fd, bytes, count, offset);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	if (write_fails(fd) || is_full(fd, offset + length_of(iov, count)))
		return -1;
	return REAL(pwritev) (fd, iov, count, offset);
}

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	return is_full(fd, offset + length) ? ENOSPC : REAL(posix_fallocate) (fd, offset, length);
}

ssize_t
pread64(int fd, void *bytes, size_t count, off64_t offset)
{
	return fails("read", fd) ? -1 : REAL(pread64) (fd, bytes, count, offset);
}
