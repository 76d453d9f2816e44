/* The door every exported function passes through. */
#include <string.h>

#include "library.h"

nvmlReturn_t sim_enter(struct sim_call *call, const char *symbol, const struct sim_target *target)
{
    struct sim_state *state = NULL;
    nvmlReturn_t rc = NVML_ERROR_UNINITIALIZED;
    memset(call, 0, sizeof *call);
    sim_lock();
    call->locked = true;
    if (!sim_is_open())
        return rc;
    rc = sim_refresh(&state);
    if (rc == NVML_SUCCESS)
        rc = sim_resolve(state, target, call);
    /* After a delay or a hang the machine may be another one: look again. */
    if (rc == NVML_SUCCESS && sim_apply_fault(state, symbol, call, &rc) && rc == NVML_SUCCESS) {
        rc = sim_refresh(&state);
        if (rc == NVML_SUCCESS)
            rc = sim_resolve(state, target, call);
    }
    call->state = state;
    if (rc == NVML_SUCCESS && call->index >= 0)
        call->gpu = &state->gpu[call->index];
    return rc;
}

nvmlReturn_t sim_enter_system(struct sim_call *call, const char *symbol)
{
    return sim_enter(call, symbol, &(struct sim_target){.lookup = SIM_NONE});
}

nvmlReturn_t sim_enter_device(struct sim_call *call, const char *symbol, nvmlDevice_t device)
{
    return sim_enter(call, symbol, &(struct sim_target){.lookup = SIM_BY_HANDLE, .device = device});
}

nvmlReturn_t sim_leave(struct sim_call *call, nvmlReturn_t rc)
{
    if (call->locked)
        sim_unlock();
    return rc;
}

nvmlReturn_t sim_read_u32(const struct sim_call *call, enum gpu_number number, unsigned *value)
{
    const struct sim_number *source = &call->gpu->number[number];
    if (!source->set)
        return NVML_ERROR_NOT_SUPPORTED;
    *value = (unsigned)source->value;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_read_text(const char *text, char *target, unsigned size)
{
    if (text[0] == '\0')
        return NVML_ERROR_NOT_SUPPORTED;
    return sim_copy_text(target, size, text) ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t sim_get_u32(const char *symbol, nvmlDevice_t device, enum gpu_number number,
                         unsigned *value)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS)
        rc = value == NULL ? NVML_ERROR_INVALID_ARGUMENT : sim_read_u32(&call, number, value);
    return sim_leave(&call, rc);
}

nvmlReturn_t sim_get_u64(const char *symbol, nvmlDevice_t device, enum gpu_number number,
                         unsigned long long *value)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS && value == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && !call.gpu->number[number].set)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *value = call.gpu->number[number].value;
    return sim_leave(&call, rc);
}

nvmlReturn_t sim_find_link(const struct sim_call *call, unsigned link,
                           const struct sim_link **found)
{
    if (call->gpu->link_count == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (link >= call->gpu->link_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *found = &call->gpu->link[link];
    const struct sim_number *error = &(*found)->number[LINK_error];
    return error->set ? (nvmlReturn_t)error->value : NVML_SUCCESS;
}
