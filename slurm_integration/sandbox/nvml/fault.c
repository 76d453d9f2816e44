/* Faults: what a sick driver does instead of answering. */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "library.h"

enum { HANG_POLL_MS = 100 };

/* "nvmlDeviceGetHandleByIndex" also names nvmlDeviceGetHandleByIndex_v2. */
static bool names_symbol(const char *pattern, const char *symbol)
{
    char base[SIM_TEXT];
    if (fnmatch(pattern, symbol, 0) == 0)
        return true;
    const char *version = strrchr(symbol, '_');
    if (version == NULL || version[1] != 'v' || !sim_copy_text(base, sizeof base, symbol))
        return false;
    base[version - symbol] = '\0';
    return fnmatch(pattern, base, 0) == 0;
}

static bool concerns(const struct sim_fault *fault, const char *symbol, const struct sim_call *call)
{
    return (fault->gpu < 0 || fault->gpu == call->index || fault->gpu == call->peer) &&
           names_symbol(fault->symbol, symbol);
}

/* The first fault that hits this call; counts the call for all that match. */
static const struct sim_fault *find(struct sim_state *state, const char *symbol,
                                    const struct sim_call *call)
{
    const struct sim_fault *hit = NULL;
    for (unsigned i = 0; i < state->fault_count; i++) {
        struct sim_fault *fault = &state->fault[i];
        if (!concerns(fault, symbol, call))
            continue;
        unsigned before = fault->calls++;
        if (hit == NULL && before >= fault->after &&
            (fault->times == 0 || before - fault->after < fault->times))
            hit = fault;
    }
    return hit;
}

static void sleep_unlocked(unsigned milliseconds)
{
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    sim_unlock();
    while (nanosleep(&left, &left) != 0)
        ;
    sim_lock();
}

static bool hangs(const struct sim_state *state, const char *symbol, const struct sim_call *call)
{
    for (unsigned i = 0; i < state->fault_count; i++)
        if (state->fault[i].effect >= SIM_HANG && state->fault[i].effect <= SIM_HANG_DEAF &&
            concerns(&state->fault[i], symbol, call))
            return true;
    return false;
}

/* A call stuck in the driver. It comes back when the fault is taken out of the
 * state file (the driver recovered), or when that file is gone: a process that
 * was abandoned by its supervisor must not outlive the simulated machine. */
static nvmlReturn_t hang(const struct sim_fault *fault, const char *symbol,
                         const struct sim_call *call)
{
    struct sim_state *state;
    nvmlReturn_t rc;
    if (fault->effect == SIM_HANG_DEAF) {
        static const int deaf_to[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2};
        for (unsigned i = 0; i < sizeof deaf_to / sizeof *deaf_to; i++)
            signal(deaf_to[i], SIG_IGN);
    }
    do {
        sleep_unlocked(HANG_POLL_MS);
        rc = sim_refresh(&state);
    } while (rc == NVML_SUCCESS && hangs(state, symbol, call));
    return rc;
}

bool sim_apply_fault(struct sim_state *state, const char *symbol, const struct sim_call *call,
                     nvmlReturn_t *rc)
{
    if (state->fault_count == 0)
        return false;
    const struct sim_fault *hit = find(state, symbol, call);
    if (hit == NULL)
        return false;
    struct sim_fault fault = *hit; /* the state may be replaced while we sleep */
    sim_debug("%s (GPU %d): fault %s", symbol, call->index, fault.symbol);
    if (fault.delay_ms > 0)
        sleep_unlocked(fault.delay_ms);
    if (fault.effect == SIM_ABORT)
        abort();
    if (fault.effect == SIM_HANG || fault.effect == SIM_HANG_DEAF)
        *rc = hang(&fault, symbol, call);
    else if (fault.effect == SIM_RETURN)
        *rc = fault.code;
    return true;
}
