#define _GNU_SOURCE /* geteuid, openat, O_NOFOLLOW with -std=c11 */
#include "task_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TOO_MANY EMLINK /* no call in here gives it */

static bool failed(char *trouble, size_t size, const char *what, const char *where)
{
	const char *why = errno == TOO_MANY ? "it holds the records of too many jobs, which "
					      "flightcheck-epilog should have taken away"
					    : strerror(errno);

	snprintf(trouble, size, "%s %.400s: %s; the exit of a task is not recorded", what, where,
		 why);
	return false;
}

static bool is_ours(const struct stat *status, mode_t kind)
{
	return (status->st_mode & S_IFMT) == kind && status->st_uid == geteuid() &&
	       !(status->st_mode & (S_IWGRP | S_IWOTH));
}

static int open_folder(const char *folder)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct stat status;
	int fd = open(folder, flags);

	if (fd < 0 && errno == ENOENT && (mkdir(folder, 0700) == 0 || errno == EEXIST))
		fd = open(folder, flags);
	if (fd >= 0 && (fstat(fd, &status) != 0 || !is_ours(&status, S_IFDIR))) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	return fd;
}

static bool is_name(const char *text)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";

	return text && text[0] && strlen(text) < 256 - 12 && strspn(text, allowed) == strlen(text);
}

/* Whether the folder holds more than an epilog that does its work would leave. */
static bool is_crowded(int folder)
{
	/* A handle of its own: a copy would share its place in the folder with us. */
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
	int count = 0;

	if (!listing) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (count <= FC_MAX_RECORDS + 2 && readdir(listing))
		count++;
	closedir(listing);
	return count > FC_MAX_RECORDS + 2; /* . and .. */
}

/* A record of our own, open at its end; *size is what it holds. */
static int open_file(int folder, const char *name, off_t *size)
{
	const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct stat status;
	int fd = openat(folder, name, flags);

	if (fd < 0 && errno == ENOENT) {
		if (is_crowded(folder)) {
			errno = TOO_MANY;
			return -1;
		}
		fd = openat(folder, name, flags | O_CREAT, 0600);
	}
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && is_ours(&status, S_IFREG) && status.st_nlink == 1) {
		*size = status.st_size;
		return fd;
	}
	close(fd);
	errno = EPERM;
	return -1;
}

static int open_record(int folder, uint32_t job_id, const char *node)
{
	char name[272], older[273];
	off_t size = 0;
	int fd;

	if (!is_name(node)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(name, sizeof(name), "%" PRIu32 ".%s", job_id, node);
	fd = open_file(folder, name, &size);
	if (fd < 0 || size < FC_MAX_RECORD)
		return fd;
	/* The last steps are those that matter: what is full makes room for them. */
	close(fd);
	snprintf(older, sizeof(older), "%s~", name);
	if (renameat(folder, name, folder, older) != 0 && errno != ENOENT)
		return -1;
	return open_file(folder, name, &size);
}

bool fc_record_exit(const char *folder, const struct fc_task_exit *task, char *trouble, size_t size)
{
	char line[160];
	struct timespec now = {0, 0};
	ssize_t written;
	int directory, record, length;

	clock_gettime(CLOCK_REALTIME, &now);
	length = snprintf(line, sizeof(line),
			  "1 %" PRIu32 " %" PRIu32 " %d %jd %d %jd.%09ld\n", task->step_id,
			  task->rank, task->local_rank, (intmax_t)task->pid, task->status,
			  (intmax_t)now.tv_sec, now.tv_nsec);
	directory = open_folder(folder);
	if (directory < 0)
		return failed(trouble, size, "the folder", folder);
	record = open_record(directory, task->job_id, task->node);
	close(directory);
	if (record < 0)
		return failed(trouble, size, "the record in", folder);
	written = write(record, line, (size_t)length);
	close(record);
	if (written != length)
		return failed(trouble, size, "writing to the record in", folder);
	return true;
}
