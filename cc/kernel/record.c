/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's side of observe.c and vary.c: what is wanted, the files that get what happened, and
 * the person at the shell. Plain calls of the host, in none of which virtual time goes by. Paths
 * are those of the run's folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PP_IDLE = 1, PP_ALL = 2 };

#define LINES 4

static int records = -1;
static unsigned char waiting[1 << 16];
static size_t used;

/* The lines of a small file, those that it lacks empty; 0 if it is not there or empty. `text`
 * holds them. */
static int read_lines(const char *name, char *text, size_t bytes, const char *lines[LINES])
{
	int file = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t length;
	char *at = text;
	int i;

	if (file < 0)
		return 0;
	length = read(file, text, bytes - 1);
	close(file);
	if (length <= 0)
		return 0;
	text[length] = 0;
	for (i = 0; i < LINES; i++) {
		char *end = strchr(at, '\n');

		lines[i] = at;
		if (end) {
			*end = 0;
			at = end + 1;
		} else {
			at += strlen(at);
		}
	}
	return 1;
}

/* One of the modes, or 0: nothing is wanted. `lines` become those of the file. */
int pp_host_observe(const char *lines[LINES])
{
	static char text[4096];

	if (!read_lines("observe", text, sizeof(text), lines))
		return 0;
	return strcmp(lines[0], "all") ? PP_IDLE : PP_ALL;
}

/* Whether a variation is wanted; `lines` become those of the file. */
int pp_host_vary(const char *lines[LINES])
{
	static char text[4096];

	return read_lines("vary", text, sizeof(text), lines);
}

static void write_all(int file, const void *from, size_t bytes)
{
	const char *at = from;

	while (bytes) {
		ssize_t done = write(file, at, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		/* A full disk: whoever reads finds the file cut short, and says so. */
		if (done <= 0)
			return;
		at += done;
		bytes -= done;
	}
}

void pp_host_varied(const char *text, unsigned long bytes)
{
	static int varied = -1;

	if (varied < 0)
		varied = open("results/varied", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	write_all(varied, text, bytes);
}

void pp_host_flush(void)
{
	/* The folder of the results is there before the machine starts. */
	if (records < 0)
		records = open("results/observed", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (used)
		write_all(records, waiting, used);
	used = 0;
}

static void put(const void *from, size_t bytes)
{
	if (used + bytes > sizeof(waiting))
		pp_host_flush();
	memcpy(waiting + used, from, bytes);
	used += bytes;
}

/* A part is smaller than `waiting`. */
void pp_host_record(unsigned long long time_ns, unsigned int what, unsigned int parts, const void *const *part, const unsigned int *bytes)
{
	static const unsigned char zeros[8];
	unsigned int head[2] = { what, 0 };
	unsigned int i;

	for (i = 0; i < parts; i++)
		head[1] += bytes[i];
	put(&time_ns, sizeof(time_ns));
	put(head, sizeof(head));
	for (i = 0; i < parts; i++)
		put(part[i], bytes[i]);
	put(zeros, -head[1] & 7);
}

/* How long the script's log is by now; the host's own file, so nobody inside is asked. */
unsigned long long pp_host_log_bytes(void)
{
	struct stat status;

	return stat("log", &status) ? 0 : status.st_size;
}

/* The file "shell" names two descriptors that the starter has left open: what a person types,
 * and where they read. */
static int person(int which)
{
	static int files[2] = { -1, -1 };

	if (files[0] < 0) {
		char text[32] = "", *end = text;
		int file = open("shell", O_RDONLY | O_CLOEXEC);

		if (file < 0)
			return -1;
		if (read(file, text, sizeof(text) - 1) > 0) {
			files[0] = strtol(text, &end, 10);
			files[1] = strtol(end, NULL, 10);
		}
		close(file);
	}
	return files[which];
}

/* Up to a line. 0: there will be no more. */
long pp_host_shell_read(void *into, unsigned long most)
{
	char *at = into;
	unsigned long got = 0;

	while (got < most) {
		ssize_t done = read(person(0), at + got, 1);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -1;
		got += done;
		if (done == 0 || at[got - 1] == '\n')
			break;
	}
	return got;
}

long pp_host_shell_write(const void *from, unsigned long bytes)
{
	if (person(1) < 0)
		return -1;
	write_all(person(1), from, bytes);
	return bytes;
}
