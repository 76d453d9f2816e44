/* What the state file says, parsed.
 *
 * Each X-macro below is the list of keys the file may set: one row gives the
 * key, its place in memory and its parser. A number that the file does not set
 * makes the calls that report it answer NVML_ERROR_NOT_SUPPORTED.
 */
#ifndef FLIGHTCHECK_NVML_STATE_H
#define FLIGHTCHECK_NVML_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_MAX_GPUS = 32,
    SIM_MAX_LINKS = 36, /* NVML_NVLINK_MAX_LINKS of the newest binding */
    SIM_MAX_PROCESSES = 64,
    SIM_MAX_FIELDS = 64,
    SIM_MAX_FAULTS = 256,
    SIM_P2P_CAPABILITIES = 5, /* read, write, nvlink, atomics, pci */
    SIM_TEXT = 96,            /* NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest */
};

#define GPU_TEXTS(X) \
    X(bus_id) X(uuid) X(serial) X(name) X(vbios_version) X(inforom_image_version) \
    X(board_part_number) X(gsp_firmware_version) X(fabric_cluster_uuid)

#define GPU_NUMBERS(X) \
    X(minor_number) X(pci_device_id) X(pci_subsystem_id) X(board_id) X(module_id) \
    X(brand) X(architecture) X(cuda_capability_major) X(cuda_capability_minor) X(numa_node) \
    X(inforom_checksum) X(inforom_valid) X(persistence_mode) X(ecc_mode) X(ecc_mode_pending) \
    X(mig_mode) X(mig_mode_pending) X(compute_mode) X(accounting_mode) X(display_mode) \
    X(virtualization_mode) X(multi_gpu_board) \
    X(dram_volatile_corrected) X(dram_volatile_uncorrected) \
    X(dram_aggregate_corrected) X(dram_aggregate_uncorrected) \
    X(sram_volatile_corrected) X(sram_volatile_uncorrected_parity) \
    X(sram_volatile_uncorrected_secded) X(sram_aggregate_corrected) \
    X(sram_aggregate_uncorrected_parity) X(sram_aggregate_uncorrected_secded) \
    X(sram_bucket_l2) X(sram_bucket_sm) X(sram_bucket_pcie) X(sram_bucket_mcu) \
    X(sram_bucket_other) X(sram_threshold_exceeded) \
    X(remapped_rows_corrected) X(remapped_rows_uncorrected) X(remapped_rows_pending) \
    X(remapped_rows_failure) X(row_remapper_max) X(row_remapper_high) X(row_remapper_partial) \
    X(row_remapper_low) X(row_remapper_none) \
    X(retired_pages_single_bit) X(retired_pages_double_bit) X(retired_pages_pending) \
    X(repair_channel_pending) X(repair_tpc_pending) X(recovery_action) \
    X(temperature_c) X(memory_temperature_c) X(margin_temperature_c) \
    X(threshold_shutdown_c) X(threshold_slowdown_c) X(threshold_memory_max_c) \
    X(threshold_gpu_max_c) X(clocks_event_reasons) X(supported_clocks_event_reasons) \
    X(graphics_clock_mhz) X(sm_clock_mhz) X(memory_clock_mhz) X(video_clock_mhz) \
    X(max_graphics_clock_mhz) X(max_sm_clock_mhz) X(max_memory_clock_mhz) \
    X(max_video_clock_mhz) X(application_graphics_clock_mhz) \
    X(application_memory_clock_mhz) X(performance_state) \
    X(power_usage_mw) X(power_limit_mw) X(power_default_limit_mw) X(power_enforced_limit_mw) \
    X(power_min_limit_mw) X(power_max_limit_mw) X(power_source) X(total_energy_mj) \
    X(pcie_generation) X(pcie_width) X(pcie_max_generation) X(pcie_max_width) \
    X(pcie_gpu_max_generation) X(pcie_replay_counter) X(utilization_gpu) \
    X(utilization_memory) X(memory_total_bytes) X(memory_reserved_bytes) X(memory_used_bytes) \
    X(fabric_state) X(fabric_status) X(fabric_clique_id) X(fabric_health_mask) \
    X(fabric_health_summary)

/* `error`: the nvmlReturn of every call about that one link. */
#define LINK_NUMBERS(X) \
    X(error) X(active) X(version) X(speed_mbps) X(capabilities) X(remote_device_type) \
    X(remote_pci_device_id) X(replay_errors) X(recovery_errors) X(crc_flit_errors) \
    X(crc_data_errors) X(ecc_data_errors) X(malformed_packet_errors) X(buffer_overrun_errors) \
    X(receive_errors) X(receive_remote_errors) X(receive_general_errors) \
    X(local_integrity_errors) X(transmit_discards) X(recovery_successful_events) \
    X(recovery_failed_events) X(recovery_events) X(raw_ber_lane0) X(raw_ber_lane1) X(raw_ber) \
    X(effective_errors) X(effective_ber) X(symbol_errors) X(symbol_ber)

#define AS_GPU_TEXT(name) GPU_TEXT_##name,
#define AS_GPU(name) GPU_##name,
#define AS_LINK(name) LINK_##name,
enum gpu_text { GPU_TEXTS(AS_GPU_TEXT) GPU_TEXT_COUNT };
enum gpu_number { GPU_NUMBERS(AS_GPU) GPU_NUMBER_COUNT };
enum link_number { LINK_NUMBERS(AS_LINK) LINK_NUMBER_COUNT };

struct sim_number {
    uint64_t value; /* negative numbers in two's complement */
    bool set;
};

struct sim_link {
    struct sim_number number[LINK_NUMBER_COUNT];
    char remote_bus_id[32];
};

struct sim_process {
    unsigned pid;
    bool graphics;
    uint64_t memory_bytes;
    char name[SIM_TEXT];
};

/* An answer of nvmlDeviceGetFieldValues that overrides the derived one. */
struct sim_field {
    unsigned id;
    unsigned scope;
    int code;
    unsigned type;
    uint64_t value;
};

struct sim_gpu {
    char text[GPU_TEXT_COUNT][SIM_TEXT];
    struct sim_number number[GPU_NUMBER_COUNT];
    unsigned domain, bus, device; /* from bus_id */
    struct sim_slot *slot;        /* the handle callers hold */
    unsigned link_count;
    struct sim_link link[SIM_MAX_LINKS];
    unsigned process_count;
    struct sim_process process[SIM_MAX_PROCESSES];
    unsigned field_count;
    struct sim_field field[SIM_MAX_FIELDS];
};

enum sim_effect { SIM_CONTINUE, SIM_RETURN, SIM_HANG, SIM_HANG_DEAF, SIM_ABORT };

struct sim_fault {
    char symbol[SIM_TEXT]; /* a glob over exported names */
    int gpu;               /* -1: any GPU, and calls that concern none */
    enum sim_effect effect;
    int code;
    unsigned delay_ms;
    unsigned after, times; /* skip the first `after` calls, then hit `times` (0: for ever) */
    unsigned calls;
};

struct sim_state {
    char driver_version[SIM_TEXT], nvml_version[SIM_TEXT];
    struct sim_number cuda_version;
    unsigned gpu_count;
    struct sim_gpu gpu[SIM_MAX_GPUS];
    uint8_t p2p[SIM_MAX_GPUS][SIM_MAX_GPUS][SIM_P2P_CAPABILITIES];
    unsigned fault_count;
    struct sim_fault fault[SIM_MAX_FAULTS];
};

/* Parses `text` (modified in place, `length` bytes, one NUL after them) into a
 * zeroed state. On failure returns false and says why in `error`. */
bool sim_parse(char *text, size_t length, struct sim_state *state, char *error, size_t error_size);

/* "1b:00.0", "0000:1b:00.0" or "00000000:1B:00.0" in its numbers. */
bool sim_parse_bus_id(const char *text, unsigned *domain, unsigned *bus, unsigned *device);

/* The one-line parsers of parse_value.c: false when the text is not one. */
bool sim_parse_number(const char *text, uint64_t *value);
bool sim_parse_index(const char *text, unsigned limit, unsigned *index);
bool sim_copy_text(char *target, size_t size, const char *text);
bool sim_parse_fault(char *symbol, const char *gpu, char *effects, struct sim_fault *fault);

#endif
