/* Which GPU it is, where it is plugged in, who uses it. */
#include <stdio.h>
#include <string.h>

#include "library.h"

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && index == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *index = (unsigned)call.index;
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    unsigned valid = 0;
    nvmlReturn_t rc = sim_get_u32(__func__, device, GPU_inforom_valid, &valid);
    return rc == NVML_SUCCESS && valid == 0 ? NVML_ERROR_CORRUPTED_INFOROM : rc;
}

static void fill_pci(const struct sim_gpu *gpu, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->domain = gpu->domain;
    pci->bus = gpu->bus & 0xff;
    pci->device = gpu->device & 0xff;
    pci->pciDeviceId = (unsigned)gpu->number[GPU_pci_device_id].value;
    pci->pciSubSystemId = (unsigned)gpu->number[GPU_pci_subsystem_id].value;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff,
             pci->bus, pci->device);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        fill_pci(call.gpu, pci);
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    struct sim_call call;
    nvmlPciInfo_t full;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        fill_pci(call.gpu, &full);
        memset(pci, 0, sizeof *pci);
        memcpy(pci, &full, offsetof(nvmlPciInfo_v2_t, reserved));
    }
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
    struct sim_call call;
    nvmlPciInfo_t full;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && pci->version != NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS) {
        fill_pci(call.gpu, &full);
        pci->domain = full.domain;
        pci->bus = full.bus;
        pci->device = full.device;
        pci->pciDeviceId = full.pciDeviceId;
        pci->pciSubSystemId = full.pciSubSystemId;
        pci->baseClass = 3; /* display controller, 3D */
        pci->subClass = 2;
        memcpy(pci->busId, full.busId, sizeof pci->busId);
    }
    return sim_leave(&call, rc);
}

static nvmlReturn_t list_processes(const char *symbol, nvmlDevice_t device, bool graphics,
                                   unsigned *count, nvmlProcessInfo_t *infos)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS && count == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc != NVML_SUCCESS)
        return sim_leave(&call, rc);
    unsigned room = infos == NULL ? 0 : *count, found = 0;
    for (unsigned i = 0; i < call.gpu->process_count; i++) {
        const struct sim_process *process = &call.gpu->process[i];
        if (process->graphics != graphics)
            continue;
        if (found < room)
            infos[found] = (nvmlProcessInfo_t){
                .pid = process->pid,
                .usedGpuMemory = process->memory_bytes,
                .gpuInstanceId = 0xffffffff, /* not in a MIG instance */
                .computeInstanceId = 0xffffffff,
            };
        found++;
    }
    *count = found;
    return sim_leave(&call, found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

#define PROCESSES(symbol, graphics) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned *count, \
                                    nvmlProcessInfo_t *infos) \
    { \
        return list_processes(__func__, device, graphics, count, infos); \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, false)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, false)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, true)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, true)
