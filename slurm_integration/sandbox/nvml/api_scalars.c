/* The calls that report one number or one text of one GPU: a table. */
#include "library.h"

#define GPU_U32(symbol, number) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned *value) \
    { \
        return sim_get_u32(__func__, device, GPU_##number, value); \
    }
#define GPU_U64(symbol, number) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned long long *value) \
    { \
        return sim_get_u64(__func__, device, GPU_##number, value); \
    }

GPU_U32(nvmlDeviceGetMinorNumber, minor_number)
GPU_U32(nvmlDeviceGetBoardId, board_id)
GPU_U32(nvmlDeviceGetModuleId, module_id)
GPU_U32(nvmlDeviceGetMultiGpuBoard, multi_gpu_board)
GPU_U32(nvmlDeviceGetBrand, brand)
GPU_U32(nvmlDeviceGetArchitecture, architecture)
GPU_U32(nvmlDeviceGetNumaNodeId, numa_node)
GPU_U32(nvmlDeviceGetInforomConfigurationChecksum, inforom_checksum)
GPU_U32(nvmlDeviceGetPersistenceMode, persistence_mode)
GPU_U32(nvmlDeviceGetComputeMode, compute_mode)
GPU_U32(nvmlDeviceGetAccountingMode, accounting_mode)
GPU_U32(nvmlDeviceGetDisplayMode, display_mode)
GPU_U32(nvmlDeviceGetVirtualizationMode, virtualization_mode)
GPU_U32(nvmlDeviceGetRetiredPagesPendingStatus, retired_pages_pending)
GPU_U32(nvmlDeviceGetPerformanceState, performance_state)
GPU_U32(nvmlDeviceGetPowerState, performance_state)
GPU_U32(nvmlDeviceGetPowerUsage, power_usage_mw)
GPU_U32(nvmlDeviceGetPowerManagementLimit, power_limit_mw)
GPU_U32(nvmlDeviceGetPowerManagementDefaultLimit, power_default_limit_mw)
GPU_U32(nvmlDeviceGetEnforcedPowerLimit, power_enforced_limit_mw)
GPU_U32(nvmlDeviceGetPowerSource, power_source)
GPU_U64(nvmlDeviceGetTotalEnergyConsumption, total_energy_mj)
GPU_U32(nvmlDeviceGetCurrPcieLinkGeneration, pcie_generation)
GPU_U32(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
GPU_U32(nvmlDeviceGetMaxPcieLinkGeneration, pcie_max_generation)
GPU_U32(nvmlDeviceGetMaxPcieLinkWidth, pcie_max_width)
GPU_U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, pcie_gpu_max_generation)
GPU_U32(nvmlDeviceGetPcieReplayCounter, pcie_replay_counter)
GPU_U64(nvmlDeviceGetCurrentClocksEventReasons, clocks_event_reasons)
GPU_U64(nvmlDeviceGetCurrentClocksThrottleReasons, clocks_event_reasons)
GPU_U64(nvmlDeviceGetSupportedClocksEventReasons, supported_clocks_event_reasons)
GPU_U64(nvmlDeviceGetSupportedClocksThrottleReasons, supported_clocks_event_reasons)

static nvmlReturn_t get_text(const char *symbol, nvmlDevice_t device, enum gpu_text which,
                             char *text, unsigned length)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS)
        rc = text == NULL ? NVML_ERROR_INVALID_ARGUMENT
                          : sim_read_text(call.gpu->text[which], text, length);
    return sim_leave(&call, rc);
}

#define GPU_STRING(symbol, which) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, char *text, unsigned length) \
    { \
        return get_text(__func__, device, GPU_TEXT_##which, text, length); \
    }
GPU_STRING(nvmlDeviceGetUUID, uuid)
GPU_STRING(nvmlDeviceGetSerial, serial)
GPU_STRING(nvmlDeviceGetName, name)
GPU_STRING(nvmlDeviceGetVbiosVersion, vbios_version)
GPU_STRING(nvmlDeviceGetInforomImageVersion, inforom_image_version)
GPU_STRING(nvmlDeviceGetBoardPartNumber, board_part_number)

/* Its ABI has no length: the caller's buffer is NVML_GSP_FIRMWARE_VERSION_BUF_SIZE. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    return get_text(__func__, device, GPU_TEXT_gsp_firmware_version, version, 64);
}

/* The calls that report two numbers at once. */
static nvmlReturn_t get_pair(const char *symbol, nvmlDevice_t device, enum gpu_number first,
                             enum gpu_number second, unsigned *one, unsigned *two)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS && (one == NULL || two == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = sim_read_u32(&call, first, one);
    if (rc == NVML_SUCCESS)
        rc = sim_read_u32(&call, second, two);
    return sim_leave(&call, rc);
}

#define GPU_PAIR(symbol, first, second) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned *one, unsigned *two) \
    { \
        return get_pair(__func__, device, GPU_##first, GPU_##second, one, two); \
    }
GPU_PAIR(nvmlDeviceGetEccMode, ecc_mode, ecc_mode_pending)
GPU_PAIR(nvmlDeviceGetMigMode, mig_mode, mig_mode_pending)
GPU_PAIR(nvmlDeviceGetCudaComputeCapability, cuda_capability_major, cuda_capability_minor)
GPU_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, power_min_limit_mw, power_max_limit_mw)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                       nvmlUtilization_t *rates)
{
    return get_pair(__func__, device, GPU_utilization_gpu, GPU_utilization_memory,
                    rates == NULL ? NULL : &rates->gpu, rates == NULL ? NULL : &rates->memory);
}
