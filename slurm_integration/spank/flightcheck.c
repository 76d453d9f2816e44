/*
 * flightcheck's SPANK plugin: `--preflight=off|quick|full` on sbatch, srun and salloc, handed to the
 * prolog as SPANK_FLIGHTCHECK_PREFLIGHT; and a record of how each task of a job ended.
 *
 * Nothing in here may break a job: whatever goes wrong is logged, and Slurm is told that all is
 * well. The one exception is a value of --preflight that does not exist, which is refused when the
 * job is submitted. plugstack.conf:
 *
 *     optional /usr/lib/flightcheck/flightcheck.so record_dir=/run/flightcheck/tasks
 */
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "task_record.h"

#pragma GCC visibility push(default)
SPANK_PLUGIN(flightcheck, 1)
int slurm_spank_init(spank_t spank, int count, char **arguments);
int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments);
int slurm_spank_task_exit(spank_t spank, int count, char **arguments);
#pragma GCC visibility pop

#define ENVIRONMENT "FLIGHTCHECK_PREFLIGHT"
#define LAST_STEP 0xfffffff0U /* behind it: batch script, interactive shell, container of the job */
#define TROUBLE 640

static char preflight[8];
static bool told;

static int choose(int value, const char *text, int remote)
{
	(void)value;
	if (!fc_is_preflight(text)) {
		if (remote) /* it went through sbatch, so it cannot be; no task fails for it */
			return ESPANK_SUCCESS;
		slurm_error("flightcheck: --preflight: expected off, quick or full, found '%.32s'",
			    text ? text : "");
		return ESPANK_BAD_ARG;
	}
	snprintf(preflight, sizeof(preflight), "%s", text);
	return ESPANK_SUCCESS;
}

static struct spank_option preflight_option = {
	.name = "preflight",
	.arginfo = "off|quick|full",
	.usage = "look at the nodes before the job: not at all (where the site allows it), "
		 "quickly, or with an all_reduce test",
	.has_arg = 1,
	.val = 0,
	.cb = choose,
};

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	(void)count;
	(void)arguments;
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
	case S_CTX_REMOTE:
		if (spank_option_register(spank, &preflight_option) != ESPANK_SUCCESS)
			slurm_error("flightcheck: --preflight could not be registered");
		break;
	default: /* slurmd and its scripts know no options */
		break;
	}
	return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
	const char *wanted = preflight[0] ? preflight : getenv(ENVIRONMENT);
	spank_context_t context = spank_context();

	(void)count;
	(void)arguments;
	if ((context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR) || !wanted || !wanted[0])
		return ESPANK_SUCCESS;
	if (!fc_is_preflight(wanted)) {
		slurm_error("flightcheck: " ENVIRONMENT
			    ": expected off, quick or full, found '%.32s'; it is ignored",
			    wanted);
		return ESPANK_SUCCESS;
	}
	/* A step within an allocation has no say any more, and is not refused for it. */
	(void)spank_job_control_setenv(spank, ENVIRONMENT, wanted, 1);
	return ESPANK_SUCCESS;
}

/*
 * Once a step, not once a task; and for slurmd's log alone: slurmstepd sends errors to the job's
 * output too, whose owner can do nothing about it.
 */
static void tell_slurmd(const char *trouble)
{
	if (!told)
		slurm_info("flightcheck: error: %s", trouble);
	told = true;
}

static bool ask(spank_t spank, struct fc_task_exit *task)
{
	return spank_get_item(spank, S_JOB_ID, &task->job_id) == ESPANK_SUCCESS &&
	       spank_get_item(spank, S_JOB_STEPID, &task->step_id) == ESPANK_SUCCESS &&
	       spank_get_item(spank, S_TASK_GLOBAL_ID, &task->rank) == ESPANK_SUCCESS &&
	       spank_get_item(spank, S_TASK_ID, &task->local_rank) == ESPANK_SUCCESS &&
	       spank_get_item(spank, S_TASK_PID, &task->pid) == ESPANK_SUCCESS &&
	       spank_get_item(spank, S_TASK_EXIT_STATUS, &task->status) == ESPANK_SUCCESS;
}

int slurm_spank_task_exit(spank_t spank, int count, char **arguments)
{
	struct fc_task_exit task = {0};
	char node[256] = "";
	struct fc_options options;
	char trouble[TROUBLE];

	if (!fc_read_options(&options, count, arguments, trouble, sizeof(trouble)))
		tell_slurmd(trouble);
	if (!options.record_dir[0])
		return ESPANK_SUCCESS;
	/* slurmstepd sets it anew, whatever the job's own environment had. */
	if (spank_getenv(spank, "SLURMD_NODENAME", node, sizeof(node)) == ESPANK_SUCCESS)
		task.node = node;
	if (!ask(spank, &task)) {
		slurm_debug("flightcheck: Slurm did not say which task ended");
		return ESPANK_SUCCESS;
	}
	if (task.step_id >= LAST_STEP)
		return ESPANK_SUCCESS; /* a script is no rank */
	if (!fc_record_exit(options.record_dir, &task, trouble, sizeof(trouble)))
		tell_slurmd(trouble);
	return ESPANK_SUCCESS;
}
