/* Temperatures, clocks and memory: calls with a selector or a version word. */
#include "library.h"

static nvmlReturn_t select_u32(const char *symbol, nvmlDevice_t device,
                               const enum gpu_number *table, unsigned count, unsigned selector,
                               unsigned *value)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS)
        rc = value == NULL || selector >= count ? NVML_ERROR_INVALID_ARGUMENT
                                                : sim_read_u32(&call, table[selector], value);
    return sim_leave(&call, rc);
}

#define COUNT(table) ((unsigned)(sizeof(table) / sizeof *(table)))
#define SELECTED(symbol, ...) \
    NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned selector, unsigned *value) \
    { \
        static const enum gpu_number table[] = {__VA_ARGS__}; \
        return select_u32(__func__, device, table, COUNT(table), selector, value); \
    }
SELECTED(nvmlDeviceGetTemperature, GPU_temperature_c)
SELECTED(nvmlDeviceGetTemperatureThreshold, GPU_threshold_shutdown_c, GPU_threshold_slowdown_c,
         GPU_threshold_memory_max_c, GPU_threshold_gpu_max_c)
SELECTED(nvmlDeviceGetClockInfo, GPU_graphics_clock_mhz, GPU_sm_clock_mhz, GPU_memory_clock_mhz,
         GPU_video_clock_mhz)
SELECTED(nvmlDeviceGetMaxClockInfo, GPU_max_graphics_clock_mhz, GPU_max_sm_clock_mhz,
         GPU_max_memory_clock_mhz, GPU_max_video_clock_mhz)
SELECTED(nvmlDeviceGetApplicationsClock, GPU_application_graphics_clock_mhz,
         GPU_application_graphics_clock_mhz, GPU_application_memory_clock_mhz)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *info)
{
    struct sim_call call;
    unsigned value = 0;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && info->version != NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS && info->sensorType != 0)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = sim_read_u32(&call, GPU_temperature_c, &value);
    if (rc == NVML_SUCCESS)
        info->temperature = (int)value;
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device,
                                                        nvmlMarginTemperature_v1_t *info)
{
    struct sim_call call;
    unsigned value = 0;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && info->version != NVML_STRUCT_VERSION(nvmlMarginTemperature_v1_t, 1))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        rc = sim_read_u32(&call, GPU_margin_temperature_c, &value);
    if (rc == NVML_SUCCESS)
        info->marginTemperature = (int)value;
    return sim_leave(&call, rc);
}

static nvmlReturn_t read_memory(const struct sim_call *call, nvmlMemory_v2_t *memory)
{
    const struct sim_number *number = call->gpu->number;
    if (!number[GPU_memory_total_bytes].set)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned long long total = number[GPU_memory_total_bytes].value, left = total;
    unsigned long long reserved = number[GPU_memory_reserved_bytes].value;
    unsigned long long used = number[GPU_memory_used_bytes].value;
    left -= reserved < left ? reserved : left;
    left -= used < left ? used : left;
    memory->total = total;
    memory->reserved = reserved;
    memory->used = used;
    memory->free = left;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && memory == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        rc = read_memory(&call, memory);
    return sim_leave(&call, rc);
}

/* The first version counts what the driver reserved as used. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    struct sim_call call;
    nvmlMemory_v2_t all;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS)
        rc = memory == NULL ? NVML_ERROR_INVALID_ARGUMENT : read_memory(&call, &all);
    if (rc == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = all.total, .free = all.free, .used = all.total - all.free};
    return sim_leave(&call, rc);
}
