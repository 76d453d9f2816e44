/* nvmlInit …, nvmlSystem …, nvmlErrorString and the lookups that give handles. */
#include <string.h>

#include "library.h"

NVML_EXPORT nvmlReturn_t nvmlInit(void) { return sim_open(__func__); }
NVML_EXPORT nvmlReturn_t nvmlInit_v2(void) { return sim_open(__func__); }
NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return sim_open(__func__);
}
NVML_EXPORT nvmlReturn_t nvmlShutdown(void) { return sim_close(); }

/* Never faulted: it reads no hardware. */
NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t code)
{
    static const char *const known[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported",
        "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
        "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
        "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "Operating System error", "Driver/library version mismatch",
        "In use by another client", "Insufficient Memory", "No data", "vGPU ECC not supported",
        "Insufficient resources", "Frequency not supported", "Argument version mismatch",
        "Deprecated", "Not ready", "GPU not found", "Invalid state",
    };
    if (code >= 0 && (size_t)code < sizeof known / sizeof *known)
        return known[code];
    return "Unknown Error";
}

#define SYSTEM_TEXT(symbol, member) \
    NVML_EXPORT nvmlReturn_t symbol(char *text, unsigned length) \
    { \
        struct sim_call call; \
        nvmlReturn_t rc = sim_enter_system(&call, __func__); \
        if (rc == NVML_SUCCESS) \
            rc = text == NULL ? NVML_ERROR_INVALID_ARGUMENT \
                              : sim_read_text(call.state->member, text, length); \
        return sim_leave(&call, rc); \
    }
SYSTEM_TEXT(nvmlSystemGetDriverVersion, driver_version)
SYSTEM_TEXT(nvmlSystemGetNVMLVersion, nvml_version)

static nvmlReturn_t cuda_version(const char *symbol, int *version)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_system(&call, symbol);
    if (rc == NVML_SUCCESS && version == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && !call.state->cuda_version.set)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *version = (int)call.state->cuda_version.value;
    return sim_leave(&call, rc);
}
NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(__func__, version);
}
NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(__func__, version);
}

static nvmlReturn_t device_count(const char *symbol, unsigned *count)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_system(&call, symbol);
    if (rc == NVML_SUCCESS && count == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *count = call.state->gpu_count;
    return sim_leave(&call, rc);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return device_count(__func__, count); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    return device_count(__func__, count);
}

static nvmlReturn_t handle(const char *symbol, struct sim_target target, nvmlDevice_t *device)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter(&call, symbol, &target);
    if (rc == NVML_SUCCESS && device == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *device = call.gpu->slot;
    return sim_leave(&call, rc);
}

#define HANDLE_BY(symbol, type, kind, member) \
    NVML_EXPORT nvmlReturn_t symbol(type value, nvmlDevice_t *device) \
    { \
        return handle(__func__, (struct sim_target){.lookup = kind, .member = value}, device); \
    }
HANDLE_BY(nvmlDeviceGetHandleByIndex, unsigned, SIM_BY_INDEX, index)
HANDLE_BY(nvmlDeviceGetHandleByIndex_v2, unsigned, SIM_BY_INDEX, index)
HANDLE_BY(nvmlDeviceGetHandleByUUID, const char *, SIM_BY_UUID, text)
HANDLE_BY(nvmlDeviceGetHandleByPciBusId, const char *, SIM_BY_BUS_ID, text)
HANDLE_BY(nvmlDeviceGetHandleByPciBusId_v2, const char *, SIM_BY_BUS_ID, text)
HANDLE_BY(nvmlDeviceGetHandleBySerial, const char *, SIM_BY_SERIAL, text)

NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_system(&call, __func__);
    if (rc != NVML_SUCCESS)
        return sim_leave(&call, rc);
    rc = name == NULL || length == 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
    for (unsigned i = 0; i < call.state->gpu_count && rc == NVML_ERROR_NOT_FOUND; i++) {
        const struct sim_gpu *gpu = &call.state->gpu[i];
        for (unsigned p = 0; p < gpu->process_count && rc == NVML_ERROR_NOT_FOUND; p++)
            if (gpu->process[p].pid == pid)
                rc = sim_read_text(gpu->process[p].name, name, length);
    }
    return sim_leave(&call, rc);
}
