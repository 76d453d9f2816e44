/* The state file: one `key value` a line.
 *
 * It begins with "flightcheck-nvml 1" and ends with "end", so that half a file
 * is never taken for a machine with fewer faults. Blank lines and lines that
 * begin with # are skipped; an unknown key is an error, because a misspelt
 * fault would otherwise read as a healthy GPU.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml_abi.h"
#include "state.h"

enum { MAX_PARTS = 5 };

#define AS_NAME(name) #name,
static const char *const gpu_texts[] = {GPU_TEXTS(AS_NAME)};
static const char *const gpu_numbers[] = {GPU_NUMBERS(AS_NAME)};
static const char *const link_numbers[] = {LINK_NUMBERS(AS_NAME)};
static const char *const capabilities[] = {"read", "write", "nvlink", "atomics", "pci"};

/* Where `name` is in `table`, or -1. Keys mostly come in the table's order, so
 * the search starts after the previous hit. */
static int find_name(const char *name, const char *const *table, int count, int *previous)
{
    for (int step = 0; step < count; step++) {
        int i = (*previous + 1 + step) % count;
        if (strcmp(name, table[i]) == 0) {
            *previous = i;
            return i;
        }
    }
    return -1;
}

/* "-" takes a number away again: the way to except one link from a "*". */
static bool set_number(struct sim_number *number, const char *value)
{
    if (strcmp(value, "-") == 0) {
        number->set = false;
        return true;
    }
    number->set = sim_parse_number(value, &number->value);
    return number->set;
}

static bool set_link(struct sim_gpu *gpu, const char *which, const char *name, const char *value)
{
    static _Thread_local int previous = -1;
    unsigned first = 0, end = SIM_MAX_LINKS;
    if (strcmp(which, "*") != 0) {
        if (!sim_parse_index(which, SIM_MAX_LINKS, &first))
            return false;
        end = first + 1;
    }
    int at = find_name(name, link_numbers, LINK_NUMBER_COUNT, &previous);
    if (at < 0 && strcmp(name, "remote_bus_id") != 0)
        return false;
    for (unsigned i = first; i < end; i++) {
        struct sim_link *link = &gpu->link[i];
        if (at < 0 ? !sim_copy_text(link->remote_bus_id, sizeof link->remote_bus_id, value)
                   : !set_number(&link->number[at], value))
            return false;
    }
    return true;
}

/* "compute 4711 1073741824 /usr/bin/python3" */
static bool add_process(struct sim_gpu *gpu, char *value)
{
    char *rest = NULL;
    char *kind = strtok_r(value, " \t", &rest);
    char *pid = strtok_r(NULL, " \t", &rest);
    char *memory = strtok_r(NULL, " \t", &rest);
    if (memory == NULL || gpu->process_count == SIM_MAX_PROCESSES)
        return false;
    struct sim_process *process = &gpu->process[gpu->process_count++];
    process->graphics = strcmp(kind, "graphics") == 0;
    return (process->graphics || strcmp(kind, "compute") == 0) &&
           sim_parse_index(pid, 0x7fffffff, &process->pid) &&
           sim_parse_number(memory, &process->memory_bytes) &&
           sim_copy_text(process->name, sizeof process->name,
                         rest == NULL ? "" : rest + strspn(rest, " \t"));
}

/* "return 3" or "1 4": a value type of NVML and the value. */
static bool add_field(struct sim_gpu *gpu, const char *id, const char *scope, char *value)
{
    char *rest = NULL;
    char *first = strtok_r(value, " \t", &rest);
    char *second = strtok_r(NULL, " \t", &rest);
    if (second == NULL || gpu->field_count == SIM_MAX_FIELDS)
        return false;
    struct sim_field *field = &gpu->field[gpu->field_count++];
    if (!sim_parse_index(id, 0x7fffffff, &field->id) ||
        !sim_parse_index(scope, 0x7fffffff, &field->scope))
        return false;
    unsigned code = 0;
    bool parsed = strcmp(first, "return") == 0
                      ? sim_parse_index(second, 65536, &code)
                      : sim_parse_index(first, 7, &field->type) &&
                            sim_parse_number(second, &field->value);
    field->code = (int)code;
    return parsed;
}

static bool set_gpu(struct sim_state *state, char **part, int parts, char *value)
{
    static _Thread_local int previous_text = -1, previous_number = -1;
    unsigned index;
    if (parts < 3 || !sim_parse_index(part[1], state->gpu_count, &index))
        return false;
    struct sim_gpu *gpu = &state->gpu[index];
    if (strcmp(part[2], "nvlink") == 0)
        return parts == 5 && set_link(gpu, part[3], part[4], value);
    if (strcmp(part[2], "field") == 0)
        return parts == 5 && add_field(gpu, part[3], part[4], value);
    if (parts != 3)
        return false;
    if (strcmp(part[2], "nvlinks") == 0)
        return sim_parse_index(value, SIM_MAX_LINKS + 1, &gpu->link_count);
    if (strcmp(part[2], "process") == 0)
        return add_process(gpu, value);
    int at = find_name(part[2], gpu_numbers, GPU_NUMBER_COUNT, &previous_number);
    if (at >= 0)
        return set_number(&gpu->number[at], value);
    at = find_name(part[2], gpu_texts, GPU_TEXT_COUNT, &previous_text);
    return at >= 0 && sim_copy_text(gpu->text[at], SIM_TEXT, value);
}

static bool set_driver(struct sim_state *state, const char *name, const char *value)
{
    if (strcmp(name, "version") == 0)
        return sim_copy_text(state->driver_version, SIM_TEXT, value);
    if (strcmp(name, "nvml_version") == 0)
        return sim_copy_text(state->nvml_version, SIM_TEXT, value);
    return strcmp(name, "cuda_version") == 0 && set_number(&state->cuda_version, value);
}

static bool set_p2p(struct sim_state *state, char **part, const char *value)
{
    int none = -1;
    unsigned a, b, status;
    int capability = find_name(part[3], capabilities, SIM_P2P_CAPABILITIES, &none);
    if (capability < 0 || !sim_parse_index(part[1], state->gpu_count, &a) ||
        !sim_parse_index(part[2], state->gpu_count, &b) || !sim_parse_index(value, 256, &status))
        return false;
    state->p2p[a][b][capability] = state->p2p[b][a][capability] = (uint8_t)status;
    return true;
}

static bool set_key(struct sim_state *state, char *key, char *value)
{
    char *part[MAX_PARTS];
    int parts = 0;
    while (key != NULL) {
        if (parts == MAX_PARTS)
            return false;
        part[parts++] = strsep(&key, ".");
    }
    if (strcmp(part[0], "gpus") == 0)
        return parts == 1 && state->gpu_count == 0 &&
               sim_parse_index(value, SIM_MAX_GPUS + 1, &state->gpu_count);
    if (strcmp(part[0], "gpu") == 0)
        return set_gpu(state, part, parts, value);
    if (strcmp(part[0], "driver") == 0)
        return parts == 2 && set_driver(state, part[1], value);
    if (strcmp(part[0], "p2p") == 0)
        return parts == 4 && set_p2p(state, part, value);
    if (strcmp(part[0], "call") != 0 || parts < 2 || parts > 3 ||
        state->fault_count == SIM_MAX_FAULTS)
        return false;
    struct sim_fault *fault = &state->fault[state->fault_count++];
    return sim_parse_fault(part[1], parts == 3 ? part[2] : NULL, value, fault);
}

static bool complete(struct sim_state *state, char *error, size_t error_size)
{
    for (unsigned i = 0; i < state->gpu_count; i++) {
        struct sim_gpu *gpu = &state->gpu[i];
        if (!sim_parse_bus_id(gpu->text[GPU_TEXT_bus_id], &gpu->domain, &gpu->bus, &gpu->device) ||
            gpu->text[GPU_TEXT_uuid][0] == '\0') {
            snprintf(error, error_size, "GPU %u has no uuid or no PCI bus_id", i);
            return false;
        }
        for (unsigned j = 0; j < i; j++)
            if (strcmp(state->gpu[j].text[GPU_TEXT_uuid], gpu->text[GPU_TEXT_uuid]) == 0) {
                snprintf(error, error_size, "GPUs %u and %u have the same uuid", j, i);
                return false;
            }
    }
    return true;
}

/* Cuts `line` into key and value, both trimmed. */
static char *split_value(char *line)
{
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL)
        line[--length] = '\0';
    char *value = line + strcspn(line, " \t");
    if (*value != '\0')
        *value++ = '\0';
    return value + strspn(value, " \t");
}

bool sim_parse(char *text, size_t length, struct sim_state *state, char *error, size_t error_size)
{
    unsigned number = 0;
    bool begun = false, ended = false;
    if (memchr(text, '\0', length) != NULL) {
        snprintf(error, error_size, "it holds a NUL byte");
        return false;
    }
    for (char *line = strsep(&text, "\n"); line != NULL; line = strsep(&text, "\n")) {
        number++;
        line += strspn(line, " \t");
        char *value = split_value(line);
        if (*line == '\0' || *line == '#')
            continue;
        bool good = !ended;
        if (!begun)
            good = begun = strcmp(line, "flightcheck-nvml") == 0 && strcmp(value, "1") == 0;
        else if (strcmp(line, "end") == 0)
            ended = true;
        else
            good = good && set_key(state, line, value);
        if (!good) {
            snprintf(error, error_size, "line %u is not understood", number);
            return false;
        }
    }
    if (!ended) {
        snprintf(error, error_size, "it does not end with the line \"end\"");
        return false;
    }
    return complete(state, error, error_size);
}
