/* The record of task exits: which rank ended when and how, as a fact and not as a log line. */
#ifndef FLIGHTCHECK_TASK_RECORD_H
#define FLIGHTCHECK_TASK_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A job of many steps must not fill the node's memory, which is what /run is made of: a full record
 * becomes its own predecessor (JOBID.NODE~), so twice this is the most that one job can take.
 */
#ifndef FC_MAX_RECORD
#define FC_MAX_RECORD (4 << 20)
#endif
/* Records that no epilog takes away, because the site runs none. */
#ifndef FC_MAX_RECORDS
#define FC_MAX_RECORDS 1024
#endif

struct fc_task_exit {
	uint32_t job_id;
	const char *node; /* several nodes can share a machine: in a sandbox they do */
	uint32_t step_id;
	uint32_t rank;
	int local_rank;
	pid_t pid;
	int status; /* as from wait(2) */
};

/*
 * Append one line to `folder`/JOBID.NODE: `1 STEP RANK LOCAL PID STATUS SECONDS.NANOSECONDS`. Only a
 * folder and a file of our own that nobody else may write are used; the folder is made where its
 * parent lets us. False with a reason in `trouble` where the line could not be kept.
 */
bool fc_record_exit(const char *folder, const struct fc_task_exit *task, char *trouble,
		    size_t size);

#endif
