/* What plugstack.conf says after the plugin's path. */
#ifndef FLIGHTCHECK_OPTIONS_H
#define FLIGHTCHECK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define FC_MAX_PATH 512
#define FC_DEFAULT_RECORD_DIR "/run/flightcheck/tasks"

struct fc_options {
	char record_dir[FC_MAX_PATH]; /* "" where no record is kept */
};

/*
 * Read `record_dir=/absolute/path` or `record_dir=off` from the arguments. A wrong one leaves the
 * default and puts what was expected into `trouble` (size bytes); true where all were understood.
 */
bool fc_read_options(struct fc_options *options, int count, char **arguments, char *trouble,
		     size_t size);

/* Whether this is one of the values of --preflight. */
bool fc_is_preflight(const char *text);

#endif
