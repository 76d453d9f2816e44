/* How an exported function begins and ends.
 *
 *     struct sim_call call;
 *     nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
 *     if (rc == NVML_SUCCESS)
 *         rc = ... read call.gpu ...;
 *     return sim_leave(&call, rc);
 *
 * Between the two the library's lock is held and `call.state` does not change.
 */
#ifndef FLIGHTCHECK_NVML_LIBRARY_H
#define FLIGHTCHECK_NVML_LIBRARY_H

#include "nvml_abi.h"
#include "state.h"

#define NVML_EXPORT __attribute__((visibility("default")))

/* Who a call is about. A slot outlives reloads of the state: it belongs to one
 * uuid, as a real handle belongs to one GPU. */
struct sim_slot {
    char uuid[SIM_TEXT];
    int index; /* in the state read last; -1: this GPU is no longer there */
};

enum sim_lookup { SIM_NONE, SIM_BY_HANDLE, SIM_BY_INDEX, SIM_BY_UUID, SIM_BY_BUS_ID, SIM_BY_SERIAL };

struct sim_target {
    enum sim_lookup lookup;
    nvmlDevice_t device, peer;
    unsigned index;
    const char *text;
};

struct sim_call {
    const struct sim_state *state;
    const struct sim_gpu *gpu;
    int index, peer; /* -1: none */
    bool locked;
};

/* store.c: the state file and the lock. */
void sim_lock(void);
void sim_unlock(void);
nvmlReturn_t sim_refresh(struct sim_state **state); /* the lock is held */
nvmlReturn_t sim_open(const char *symbol);          /* nvmlInit and its variants */
nvmlReturn_t sim_close(void);
bool sim_is_open(void);
nvmlReturn_t sim_resolve(const struct sim_state *state, const struct sim_target *target,
                         struct sim_call *call);
void sim_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fault.c: returns with the lock held; it may have been released on the way. */
bool sim_apply_fault(struct sim_state *state, const char *symbol, const struct sim_call *call,
                     nvmlReturn_t *rc);

/* call.c */
nvmlReturn_t sim_enter(struct sim_call *call, const char *symbol, const struct sim_target *target);
nvmlReturn_t sim_enter_system(struct sim_call *call, const char *symbol);
nvmlReturn_t sim_enter_device(struct sim_call *call, const char *symbol, nvmlDevice_t device);
nvmlReturn_t sim_leave(struct sim_call *call, nvmlReturn_t rc);
nvmlReturn_t sim_read_u32(const struct sim_call *call, enum gpu_number number, unsigned *value);
nvmlReturn_t sim_read_text(const char *text, char *target, unsigned size);
nvmlReturn_t sim_get_u32(const char *symbol, nvmlDevice_t device, enum gpu_number number,
                         unsigned *value);
nvmlReturn_t sim_get_u64(const char *symbol, nvmlDevice_t device, enum gpu_number number,
                         unsigned long long *value);

/* The link a call names, or why it has none. */
nvmlReturn_t sim_find_link(const struct sim_call *call, unsigned link,
                           const struct sim_link **found);

#endif
