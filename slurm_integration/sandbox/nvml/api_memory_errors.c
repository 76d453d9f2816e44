/* ECC, row remapping, page retirement, repairs. */
#include "library.h"

enum { CORRECTED, UNCORRECTED };          /* nvmlMemoryErrorType_t */
enum { VOLATILE, AGGREGATE };             /* nvmlEccCounterType_t */
enum { LOCATION_DRAM = 2, LOCATION_SRAM = 7, LOCATION_COUNT = 8 };

/* [counter][error]: SRAM's uncorrected errors are the sum of two kinds. */
static const enum gpu_number dram[2][2] = {
    {GPU_dram_volatile_corrected, GPU_dram_volatile_uncorrected},
    {GPU_dram_aggregate_corrected, GPU_dram_aggregate_uncorrected},
};
static const enum gpu_number sram[2][2] = {
    {GPU_sram_volatile_corrected, GPU_sram_volatile_uncorrected_parity},
    {GPU_sram_aggregate_corrected, GPU_sram_aggregate_uncorrected_parity},
};
static const enum gpu_number secded[2] = {
    GPU_sram_volatile_uncorrected_secded,
    GPU_sram_aggregate_uncorrected_secded,
};

static nvmlReturn_t add(const struct sim_gpu *gpu, enum gpu_number number, unsigned long long *sum)
{
    if (!gpu->number[number].set)
        return NVML_ERROR_NOT_SUPPORTED;
    *sum += gpu->number[number].value;
    return NVML_SUCCESS;
}

static nvmlReturn_t count_errors(const struct sim_gpu *gpu, unsigned error, unsigned counter,
                                 unsigned location, unsigned long long *sum)
{
    if (!gpu->number[GPU_ecc_mode].set || gpu->number[GPU_ecc_mode].value == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (location == LOCATION_DRAM)
        return add(gpu, dram[counter][error], sum);
    if (location != LOCATION_SRAM)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t rc = add(gpu, sram[counter][error], sum);
    if (rc == NVML_SUCCESS && error == UNCORRECTED)
        rc = add(gpu, secded[counter], sum);
    return rc;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned error,
                                                         unsigned counter, unsigned location,
                                                         unsigned long long *count)
{
    struct sim_call call;
    unsigned long long sum = 0;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && (count == NULL || error > UNCORRECTED || counter > AGGREGATE ||
                               location >= LOCATION_COUNT))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = count_errors(call.gpu, error, counter, location, &sum);
    if (rc == NVML_SUCCESS)
        *count = sum;
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned error,
                                                     unsigned counter, unsigned long long *count)
{
    struct sim_call call;
    unsigned long long sum = 0;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && (count == NULL || error > UNCORRECTED || counter > AGGREGATE))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = count_errors(call.gpu, error, counter, LOCATION_DRAM, &sum);
    if (rc == NVML_SUCCESS)
        rc = count_errors(call.gpu, error, counter, LOCATION_SRAM, &sum);
    if (rc == NVML_SUCCESS)
        *count = sum;
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                         nvmlEccSramErrorStatus_v1_t *status)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && status == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && status->version != NVML_STRUCT_VERSION(nvmlEccSramErrorStatus_v1_t, 1))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS && !call.gpu->number[GPU_sram_threshold_exceeded].set)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        const struct sim_number *number = call.gpu->number;
        status->aggregateUncParity = number[GPU_sram_aggregate_uncorrected_parity].value;
        status->aggregateUncSecDed = number[GPU_sram_aggregate_uncorrected_secded].value;
        status->aggregateCor = number[GPU_sram_aggregate_corrected].value;
        status->volatileUncParity = number[GPU_sram_volatile_uncorrected_parity].value;
        status->volatileUncSecDed = number[GPU_sram_volatile_uncorrected_secded].value;
        status->volatileCor = number[GPU_sram_volatile_corrected].value;
        status->aggregateUncBucketL2 = number[GPU_sram_bucket_l2].value;
        status->aggregateUncBucketSm = number[GPU_sram_bucket_sm].value;
        status->aggregateUncBucketPcie = number[GPU_sram_bucket_pcie].value;
        status->aggregateUncBucketMcu = number[GPU_sram_bucket_mcu].value;
        status->aggregateUncBucketOther = number[GPU_sram_bucket_other].value;
        status->bThresholdExceeded = (unsigned)number[GPU_sram_threshold_exceeded].value;
    }
    return sim_leave(&call, rc);
}

/* Reads `count` numbers that follow one another in the table of keys. */
static nvmlReturn_t read_run(const struct sim_call *call, enum gpu_number first, unsigned count,
                             unsigned *const *values)
{
    nvmlReturn_t rc = NVML_SUCCESS;
    for (unsigned i = 0; i < count && rc == NVML_SUCCESS; i++)
        rc = values[i] == NULL ? NVML_ERROR_INVALID_ARGUMENT
                               : sim_read_u32(call, (enum gpu_number)(first + i), values[i]);
    return rc;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected,
                                                   unsigned *uncorrected, unsigned *pending,
                                                   unsigned *failure)
{
    struct sim_call call;
    unsigned *const values[] = {corrected, uncorrected, pending, failure};
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS)
        rc = read_run(&call, GPU_remapped_rows_corrected, 4, values);
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                                           nvmlRowRemapperHistogramValues_t *rows)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && rows == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        unsigned *const values[] = {&rows->max, &rows->high, &rows->partial, &rows->low,
                                    &rows->none};
        rc = read_run(&call, GPU_row_remapper_max, 5, values);
    }
    return sim_leave(&call, rc);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device,
                                                   nvmlRepairStatus_v1_t *status)
{
    struct sim_call call;
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && status == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && status->version != NVML_STRUCT_VERSION(nvmlRepairStatus_v1_t, 1))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS) {
        unsigned *const values[] = {&status->bChannelRepairPending, &status->bTpcRepairPending};
        rc = read_run(&call, GPU_repair_channel_pending, 2, values);
    }
    return sim_leave(&call, rc);
}

/* The file gives the number of pages; their addresses are made up. The times
 * are touched only when there is room: old bindings ask for the size without
 * passing that argument at all. */
static nvmlReturn_t retired_pages(const char *symbol, nvmlDevice_t device, unsigned cause,
                                  unsigned *count, unsigned long long *addresses,
                                  unsigned long long *times)
{
    struct sim_call call;
    unsigned pages = 0;
    nvmlReturn_t rc = sim_enter_device(&call, symbol, device);
    if (rc == NVML_SUCCESS && (count == NULL || cause > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = sim_read_u32(&call, cause == 0 ? GPU_retired_pages_single_bit
                                            : GPU_retired_pages_double_bit, &pages);
    if (rc != NVML_SUCCESS)
        return sim_leave(&call, rc);
    unsigned room = addresses == NULL ? 0 : *count;
    *count = pages;
    if (pages > room)
        return sim_leave(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned i = 0; i < pages; i++) {
        addresses[i] = 0x100000ULL * (cause + 1) + 0x1000ULL * i;
        if (times != NULL)
            times[i] = 1700000000000000ULL + i; /* microseconds */
    }
    return sim_leave(&call, rc);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause,
                                                   unsigned *count, unsigned long long *addresses)
{
    return retired_pages(__func__, device, cause, count, addresses, NULL);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause,
                                                      unsigned *count,
                                                      unsigned long long *addresses,
                                                      unsigned long long *times)
{
    return retired_pages(__func__, device, cause, count, addresses, times);
}
