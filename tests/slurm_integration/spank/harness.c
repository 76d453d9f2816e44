/*
 * Loads the plugin as Slurm would, every symbol at once, and calls it with Slurm's own functions
 * played by this file. FLIGHTCHECK_PLUGIN: the plugin, built with sanitizers or without.
 *
 *   harness option VALUE          the option's callback, as at submission; exit code 1: refused
 *   harness environment VALUE     what is carried to the prolog, on standard output
 *   harness exit FOLDER NODE N    N tasks end, each with odd numbers
 *   harness storm FOLDER SEED N   N calls in any context, with whatever arguments
 *   harness bench FOLDER N        nanoseconds for one task's exit
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int callback(spank_t spank, int count, char **arguments);
static callback *init, *init_post_opt, *task_exit;

static spank_context_t context = S_CTX_REMOTE;
static struct spank_option *option;
static char carried[256], node[600];
static uint32_t job = 4711, step, rank;
static int status, fail_item = -1;

spank_context_t spank_context(void) { return context; }
spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
	(void)sp;
	option = opt;
	return ESPANK_SUCCESS;
}
spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value, int over)
{
	(void)sp;
	(void)over;
	snprintf(carried, sizeof(carried), "%s=%s", name, value);
	return ESPANK_SUCCESS;
}
spank_err_t spank_getenv(spank_t sp, const char *name, char *buffer, int size)
{
	(void)sp;
	if (strcmp(name, "SLURMD_NODENAME") != 0 || !node[0])
		return ESPANK_ENV_NOEXIST;
	if ((int)strlen(node) >= size)
		return ESPANK_NOSPACE;
	snprintf(buffer, (size_t)size, "%s", node);
	return ESPANK_SUCCESS;
}
spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	va_list more;
	spank_err_t answer = ESPANK_SUCCESS;

	(void)sp;
	if ((int)item == fail_item)
		return ESPANK_NOT_AVAIL;
	va_start(more, item);
	switch (item) {
	case S_JOB_ID:
		*va_arg(more, uint32_t *) = job;
		break;
	case S_JOB_STEPID:
		*va_arg(more, uint32_t *) = step;
		break;
	case S_TASK_GLOBAL_ID:
		*va_arg(more, uint32_t *) = rank;
		break;
	case S_TASK_ID:
		*va_arg(more, int *) = (int)rank % 8;
		break;
	case S_TASK_PID:
		*va_arg(more, pid_t *) = 12345;
		break;
	case S_TASK_EXIT_STATUS:
		*va_arg(more, int *) = status;
		break;
	default:
		answer = ESPANK_BAD_ARG;
	}
	va_end(more);
	return answer;
}
static void say(const char *format, va_list more)
{
	vfprintf(stderr, format, more);
	fputc('\n', stderr);
}
void slurm_error(const char *format, ...)
{
	va_list more;
	va_start(more, format);
	say(format, more);
	va_end(more);
}
void slurm_info(const char *format, ...)
{
	va_list more;
	va_start(more, format);
	say(format, more);
	va_end(more);
}
void slurm_debug(const char *format, ...)
{
	va_list more;
	va_start(more, format);
	say(format, more);
	va_end(more);
}

static callback *symbol(void *plugin, const char *name)
{
	callback *found;

	*(void **)&found = plugin ? dlsym(plugin, name) : NULL;
	if (!found) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(66);
	}
	return found;
}

static void load(void)
{
	void *plugin = dlopen(getenv("FLIGHTCHECK_PLUGIN"), RTLD_NOW | RTLD_LOCAL);

	init = symbol(plugin, "slurm_spank_init");
	init_post_opt = symbol(plugin, "slurm_spank_init_post_opt");
	task_exit = symbol(plugin, "slurm_spank_task_exit");
}

static char argument[700];

static int task_exits(const char *folder, int count)
{
	char *arguments[] = {argument, NULL};

	snprintf(argument, sizeof(argument), "record_dir=%s", folder);
	for (rank = 0; (int)rank < count; rank++)
		if (task_exit(NULL, 1, arguments) != ESPANK_SUCCESS)
			return 1;
	return 0;
}

static int storm(const char *folder, unsigned seed, int count)
{
	static const char *const nodes[] = {"", "node01", "../../etc/passwd", "a/b", "n\n1", ".", ".."};
	char *odd[] = {argument, NULL, (char *)"record_dir=", (char *)"record_dir=relative",
		       (char *)"record_dir=/a/../b", (char *)"", (char *)"%s%n%s%n"};

	srand(seed);
	snprintf(argument, sizeof(argument), "record_dir=%s", folder);
	for (int i = 0; i < count; i++) {
		int arguments = rand() % 7;

		context = (spank_context_t)(rand() % (S_CTX_JOB_SCRIPT + 2));
		fail_item = rand() % 4 ? -1 : rand() % 20;
		job = (uint32_t)rand() * (rand() % 2 ? 1U : 77777U);
		step = rand() % 3 ? (uint32_t)rand() % 5 : 0xfffffff0U + (uint32_t)rand() % 16;
		rank = (uint32_t)rand();
		status = rand() - RAND_MAX / 2;
		snprintf(node, sizeof(node), "%s", nodes[rand() % 7]);
		if (rand() % 50 == 0) {
			memset(node, 'x', sizeof(node) - 1);
			node[sizeof(node) - 1] = '\0';
		}
		if (init(NULL, arguments, odd) != ESPANK_SUCCESS ||
		    init_post_opt(NULL, arguments, odd) != ESPANK_SUCCESS ||
		    task_exit(NULL, arguments, rand() % 9 ? odd : NULL) != ESPANK_SUCCESS)
			return 1;
	}
	return 0;
}

int main(int count, char **words)
{
	struct timespec from, to;

	load();
	if (count >= 2 && strcmp(words[1], "option") == 0) {
		context = S_CTX_ALLOCATOR;
		init(NULL, 0, NULL);
		return option->cb(0, count > 2 ? words[2] : NULL, 0) != ESPANK_SUCCESS;
	}
	if (count == 3 && strcmp(words[1], "environment") == 0) {
		context = S_CTX_ALLOCATOR;
		setenv("FLIGHTCHECK_PREFLIGHT", words[2], 1);
		init_post_opt(NULL, 0, NULL);
		puts(carried);
		return 0;
	}
	if (count == 5 && strcmp(words[1], "exit") == 0) {
		snprintf(node, sizeof(node), "%s", words[3]);
		status = 11;
		return task_exits(words[2], atoi(words[4]));
	}
	if (count == 5 && strcmp(words[1], "storm") == 0)
		return storm(words[2], (unsigned)atoi(words[3]), atoi(words[4]));
	if (count == 4 && strcmp(words[1], "bench") == 0) {
		snprintf(node, sizeof(node), "node01");
		clock_gettime(CLOCK_MONOTONIC, &from);
		task_exits(words[2], atoi(words[3]));
		clock_gettime(CLOCK_MONOTONIC, &to);
		printf("%.0f\n", ((double)(to.tv_sec - from.tv_sec) * 1e9 +
				  (double)(to.tv_nsec - from.tv_nsec)) / atoi(words[3]));
		return 0;
	}
	fprintf(stderr, "usage: %s option|environment|exit|storm|bench …\n", words[0]);
	return 64;
}
