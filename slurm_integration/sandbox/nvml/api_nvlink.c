/* NVLink, the NVSwitch fabric and peer-to-peer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

static nvmlReturn_t link_number(const char *symbol, nvmlDevice_t device, unsigned link,
                                enum link_number number, uint64_t *value)
{
    struct sim_call call;
    const struct sim_link *found = NULL;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS)
        rc = sim_find_link(&call, link, &found);
    if (rc == NVML_SUCCESS && !found->number[number].set)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *value = found->number[number].value;
    return sim_leave(&call, rc);
}

#define LINK_U32(symbol, number) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned link, unsigned *value) \
    { \
        uint64_t found = 0; \
        nvmlReturn_t rc = link_number(__func__, device, link, LINK_##number, &found); \
        if (rc == NVML_SUCCESS && value == NULL) \
            return NVML_ERROR_INVALID_ARGUMENT; \
        if (rc == NVML_SUCCESS) \
            *value = (unsigned)found; \
        return rc; \
    }
LINK_U32(nvmlDeviceGetNvLinkState, active)
LINK_U32(nvmlDeviceGetNvLinkVersion, version)
LINK_U32(nvmlDeviceGetNvLinkRemoteDeviceType, remote_device_type)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                                         unsigned counter,
                                                         unsigned long long *value)
{
    static const enum link_number table[] = {LINK_replay_errors, LINK_recovery_errors,
                                             LINK_crc_flit_errors, LINK_crc_data_errors,
                                             LINK_ecc_data_errors};
    uint64_t found = 0;
    if (value == NULL || counter >= sizeof table / sizeof *table)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = link_number(__func__, device, link, table[counter], &found);
    if (rc == NVML_SUCCESS)
        *value = found;
    return rc;
}

/* `capabilities` is a mask, one bit for each nvmlNvLinkCapability_t. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link,
                                                       unsigned capability, unsigned *value)
{
    uint64_t found = 0;
    if (value == NULL || capability > 5)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = link_number(__func__, device, link, LINK_capabilities, &found);
    if (rc == NVML_SUCCESS)
        *value = (unsigned)(found >> capability & 1);
    return rc;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                             nvmlPciInfo_t *pci)
{
    struct sim_call call;
    const struct sim_link *found = NULL;
    unsigned domain = 0, bus = 0, slot = 0;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = sim_find_link(&call, link, &found);
    if (rc == NVML_SUCCESS && !sim_parse_bus_id(found->remote_bus_id, &domain, &bus, &slot))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        memset(pci, 0, sizeof *pci);
        pci->domain = domain;
        pci->bus = bus & 0xff;
        pci->device = slot & 0xff;
        pci->pciDeviceId = (unsigned)found->number[LINK_remote_pci_device_id].value;
        snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xffff,
                 pci->bus, pci->device);
        snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", domain, pci->bus, pci->device);
    }
    return sim_leave(&call, rc);
}

/* 32 hexadecimal digits, dashes allowed; anything else reads as zeros. */
static void cluster_uuid(const char *text, unsigned char *uuid)
{
    char pair[3] = {0};
    unsigned digits = 0;
    memset(uuid, 0, 16);
    for (; *text != '\0' && digits < 32; text++) {
        if (*text == '-')
            continue;
        pair[digits % 2] = *text;
        if (digits++ % 2 == 1)
            uuid[digits / 2 - 1] = (unsigned char)strtoul(pair, NULL, 16);
    }
}

static nvmlReturn_t read_fabric(const struct sim_call *call, nvmlGpuFabricInfo_v3_t *info)
{
    const struct sim_number *number = call->gpu->number;
    if (!number[GPU_fabric_state].set)
        return NVML_ERROR_NOT_SUPPORTED;
    cluster_uuid(call->gpu->text[GPU_TEXT_fabric_cluster_uuid], info->clusterUuid);
    info->state = (unsigned)number[GPU_fabric_state].value;
    info->status = (nvmlReturn_t)number[GPU_fabric_status].value;
    info->cliqueId = (unsigned)number[GPU_fabric_clique_id].value;
    info->healthMask = (unsigned)number[GPU_fabric_health_mask].value;
    info->healthSummary = (unsigned char)number[GPU_fabric_health_summary].value;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    struct sim_call call;
    nvmlGpuFabricInfo_v3_t full;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS)
        rc = info == NULL ? NVML_ERROR_INVALID_ARGUMENT : read_fabric(&call, &full);
    if (rc == NVML_SUCCESS) {
        memcpy(info->clusterUuid, full.clusterUuid, sizeof info->clusterUuid);
        info->status = full.status;
        info->cliqueId = full.cliqueId;
        info->state = full.state;
    }
    return sim_leave(&call, rc);
}

/* The version word says how much of the structure the caller has. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
                                                     nvmlGpuFabricInfo_v2_t *info)
{
    struct sim_call call;
    nvmlGpuFabricInfo_v3_t full;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    bool newest = rc == NVML_SUCCESS &&
                  info->version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3);
    if (rc == NVML_SUCCESS && !newest &&
        info->version != NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        rc = read_fabric(&call, &full);
    if (rc == NVML_SUCCESS) {
        full.version = info->version;
        memcpy(info, &full, sizeof *info);
        if (newest)
            ((nvmlGpuFabricInfo_v3_t *)info)->healthSummary = full.healthSummary;
    }
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two,
                                                unsigned capability, unsigned *status)
{
    struct sim_call call;
    struct sim_target target = {.lookup = SIM_BY_HANDLE, .device = one, .peer = two};
    nvmlReturn_t rc = sim_enter(&call, __func__, &target);
    if (rc == NVML_SUCCESS && (status == NULL || call.peer < 0 || call.peer == call.index ||
                               capability >= SIM_P2P_CAPABILITIES))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *status = call.state->p2p[call.index][call.peer][capability];
    return sim_leave(&call, rc);
}
