/* nvmlDeviceGetFieldValues: each field answers for itself. */
#define _GNU_SOURCE
#include <time.h>

#include "library.h"

/* Fields of a GPU as a whole. */
static const struct { unsigned id; enum gpu_number number; unsigned type; } gpu_fields[] = {
    {1, GPU_ecc_mode, NVML_VALUE_TYPE_UNSIGNED_INT},
    {2, GPU_ecc_mode_pending, NVML_VALUE_TYPE_UNSIGNED_INT},
    {11, GPU_dram_volatile_corrected, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {12, GPU_dram_volatile_uncorrected, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {22, GPU_dram_aggregate_corrected, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {23, GPU_dram_aggregate_uncorrected, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {29, GPU_retired_pages_single_bit, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {30, GPU_retired_pages_double_bit, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {31, GPU_retired_pages_pending, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {82, GPU_memory_temperature_c, NVML_VALUE_TYPE_UNSIGNED_INT},
    {83, GPU_total_energy_mj, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {94, GPU_pcie_replay_counter, NVML_VALUE_TYPE_UNSIGNED_INT},
    {142, GPU_remapped_rows_corrected, NVML_VALUE_TYPE_UNSIGNED_INT},
    {143, GPU_remapped_rows_uncorrected, NVML_VALUE_TYPE_UNSIGNED_INT},
    {144, GPU_remapped_rows_pending, NVML_VALUE_TYPE_UNSIGNED_INT},
    {145, GPU_remapped_rows_failure, NVML_VALUE_TYPE_UNSIGNED_INT},
    {185, GPU_power_usage_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {186, GPU_power_usage_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {187, GPU_power_min_limit_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {188, GPU_power_max_limit_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {189, GPU_power_default_limit_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {190, GPU_power_enforced_limit_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {192, GPU_power_limit_mw, NVML_VALUE_TYPE_UNSIGNED_INT},
    {230, GPU_recovery_action, NVML_VALUE_TYPE_UNSIGNED_INT},
};

/* Fields of one link, chosen by scopeId. */
static const struct { unsigned id; enum link_number number; unsigned type; } link_fields[] = {
    {161, LINK_replay_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {162, LINK_recovery_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {163, LINK_crc_flit_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {164, LINK_speed_mbps, NVML_VALUE_TYPE_UNSIGNED_INT},
    {165, LINK_active, NVML_VALUE_TYPE_UNSIGNED_INT},
    {166, LINK_version, NVML_VALUE_TYPE_UNSIGNED_INT},
    {206, LINK_malformed_packet_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {207, LINK_buffer_overrun_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {208, LINK_receive_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {209, LINK_receive_remote_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {210, LINK_receive_general_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {211, LINK_local_integrity_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {212, LINK_transmit_discards, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {213, LINK_recovery_successful_events, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {214, LINK_recovery_failed_events, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {215, LINK_recovery_events, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {216, LINK_raw_ber_lane0, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {217, LINK_raw_ber_lane1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {218, LINK_raw_ber, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {219, LINK_effective_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {220, LINK_effective_ber, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {221, LINK_symbol_errors, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
    {222, LINK_symbol_ber, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
};

/* Older fields: `count` ids in a row, the first of them about `first_link`. */
static const struct { unsigned id, count, first_link; enum link_number number; } lane_fields[] = {
    {32, 6, 0, LINK_crc_flit_errors}, {39, 6, 0, LINK_crc_data_errors},
    {46, 6, 0, LINK_replay_errors},   {53, 6, 0, LINK_recovery_errors},
    {84, 6, 0, LINK_speed_mbps},      {90, 1, 0, LINK_speed_mbps},
    {96, 6, 6, LINK_crc_flit_errors}, {102, 6, 6, LINK_crc_data_errors},
    {108, 6, 6, LINK_replay_errors},  {114, 6, 6, LINK_recovery_errors},
    {132, 6, 6, LINK_speed_mbps},     {148, 12, 0, LINK_ecc_data_errors},
};

/* Sums over all links of a GPU. */
static const struct { unsigned id; enum link_number number; } total_fields[] = {
    {38, LINK_crc_flit_errors}, {45, LINK_crc_data_errors},  {52, LINK_replay_errors},
    {59, LINK_recovery_errors}, {160, LINK_ecc_data_errors},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static nvmlReturn_t answer(nvmlFieldValue_t *field, const struct sim_number *number, unsigned type)
{
    if (!number->set)
        return NVML_ERROR_NOT_SUPPORTED;
    field->valueType = type;
    field->value.ullVal = type == NVML_VALUE_TYPE_UNSIGNED_INT ? (unsigned)number->value
                                                               : number->value;
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_link(const struct sim_call *call, nvmlFieldValue_t *field, unsigned link,
                                enum link_number number, unsigned type)
{
    const struct sim_link *found = NULL;
    nvmlReturn_t rc = sim_find_link(call, link, &found);
    return rc == NVML_SUCCESS ? answer(field, &found->number[number], type) : rc;
}

static nvmlReturn_t answer_total(const struct sim_gpu *gpu, nvmlFieldValue_t *field,
                                 enum link_number number)
{
    struct sim_number sum = {.set = false};
    for (unsigned i = 0; i < gpu->link_count; i++) {
        sum.value += gpu->link[i].number[number].value;
        sum.set = sum.set || gpu->link[i].number[number].set;
    }
    return answer(field, &sum, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
}

static nvmlReturn_t answer_field(const struct sim_call *call, nvmlFieldValue_t *field)
{
    const struct sim_gpu *gpu = call->gpu;
    unsigned id = field->fieldId;
    for (unsigned i = 0; i < gpu->field_count; i++)
        if (gpu->field[i].id == id && gpu->field[i].scope == field->scopeId) {
            field->valueType = gpu->field[i].type;
            field->value.ullVal = gpu->field[i].value;
            return gpu->field[i].code;
        }
    for (unsigned i = 0; i < COUNT(gpu_fields); i++)
        if (gpu_fields[i].id == id)
            return answer(field, &gpu->number[gpu_fields[i].number], gpu_fields[i].type);
    for (unsigned i = 0; i < COUNT(link_fields); i++)
        if (link_fields[i].id == id)
            return answer_link(call, field, field->scopeId, link_fields[i].number,
                               link_fields[i].type);
    for (unsigned i = 0; i < COUNT(lane_fields); i++)
        if (id >= lane_fields[i].id && id - lane_fields[i].id < lane_fields[i].count)
            return answer_link(call, field, id - lane_fields[i].id + lane_fields[i].first_link,
                               lane_fields[i].number, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
    for (unsigned i = 0; i < COUNT(total_fields); i++)
        if (total_fields[i].id == id)
            return answer_total(gpu, field, total_fields[i].number);
    if (id == 91 && gpu->link_count > 0)
        return answer(field, &(struct sim_number){gpu->link_count, true},
                      NVML_VALUE_TYPE_UNSIGNED_INT);
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                  nvmlFieldValue_t *fields)
{
    struct sim_call call;
    struct timespec now = {0};
    nvmlReturn_t rc = sim_enter_device(&call, __func__, device);
    if (rc == NVML_SUCCESS && (count <= 0 || fields == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; rc == NVML_SUCCESS && i < count; i++) {
        fields[i].timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
        fields[i].latencyUsec = 0;
        fields[i].valueType = 0;
        fields[i].value.ullVal = 0; /* what a field that is not supported reads as */
        fields[i].nvmlReturn = answer_field(&call, &fields[i]);
    }
    return sim_leave(&call, rc);
}
