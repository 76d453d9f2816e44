/* The client of the storm's controller: what scontrol is to slurmctld, and 60 KiB small.
 *
 * Runs as <folder>/bin/<node>/scontrol and talks to <folder>/ctl. It sends its own path and
 * arguments, parted by \037, and prints the answer: '0' and text to stdout, '1' and text to stderr
 * with exit code 1, 'B' means "back off": it tries again after a second, as a client of Slurm
 * 23.02 with rl_enable does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef START_US
#define START_US 8000 /* what a real scontrol takes to load its plugins, without the CPU time */
#endif
#define BACKOFF_TRIES 15

static int reach(const char *program)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(program);

	for (int up = 0; up < 3; up++) {
		while (length > 0 && program[length - 1] != '/')
			length--;
		if (length > 0)
			length--;
	}
	if (length + sizeof("/ctl") > sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, program, length);
	strcpy(address.sun_path + length, "/ctl");

	for (int tries = 0; tries < 500; tries++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
			return fd;
		close(fd);
		if (errno != EAGAIN) /* the queue of connections is full: as TCP, once more */
			return -1;
		usleep(20000);
	}
	return -1;
}

static int send_all(int fd, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		size_t left = strlen(argv[i]);

		for (const char *at = argv[i]; left > 0;) {
			ssize_t sent = write(fd, at, left);

			if (sent < 0)
				return -1;
			at += sent;
			left -= (size_t)sent;
		}
		if (write(fd, i + 1 < argc ? "\037" : "\n", 1) != 1)
			return -1;
	}
	return 0;
}

/* The answer's first letter, or 0 where there was none. */
static char ask(int argc, char **argv)
{
	static char buffer[1 << 16];
	char word = 0;
	int fd = reach(argv[0]);

	if (fd < 0 || send_all(fd, argc, argv) != 0)
		return 0;
	for (;;) {
		ssize_t got = read(fd, buffer, sizeof(buffer));
		char *from = buffer;

		if (got <= 0)
			break;
		if (word == 0) {
			word = *from++;
			got--;
		}
		if (fwrite(from, 1, (size_t)got, word == '1' ? stderr : stdout) != (size_t)got)
			break;
	}
	close(fd);
	return word;
}

int main(int argc, char **argv)
{
	char word = 'B';

	usleep(START_US);
	for (int tries = 0; word == 'B' && tries < BACKOFF_TRIES; tries++) {
		if (tries > 0)
			sleep(1);
		word = ask(argc, argv);
	}
	if (word == 0)
		fprintf(stderr, "slurm_load_node error: Unable to contact slurm controller "
				"(connect failure)\n");
	return word == '0' ? 0 : 1;
}
