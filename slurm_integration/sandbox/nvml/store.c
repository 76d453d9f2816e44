/* The state file on disk: where it is, whether it changed, what it says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "library.h"

enum { MAX_SLOTS = 256, MAX_FILE = 8 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned open_count;
static char path[PATH_MAX];
static struct stat seen; /* the file that `current` was read from */
static struct sim_state *current;
static nvmlReturn_t current_rc = NVML_ERROR_UNINITIALIZED;
static struct sim_slot slots[MAX_SLOTS];
static unsigned slot_count;

void sim_lock(void) { pthread_mutex_lock(&lock); }
void sim_unlock(void) { pthread_mutex_unlock(&lock); }
bool sim_is_open(void) { return open_count > 0; }

void sim_debug(const char *format, ...)
{
    va_list arguments;
    if (getenv("FLIGHTCHECK_NVML_DEBUG") == NULL)
        return;
    fputs("flightcheck-nvml: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static bool beside(const char *library, char *target)
{
    const char *slash = strrchr(library, '/');
    int folder = slash == NULL ? 0 : (int)(slash - library + 1);
    return snprintf(target, PATH_MAX, "%.*slibnvidia-ml.state", folder, library) < PATH_MAX;
}

/* The environment's choice; else beside the name this library was loaded by,
 * so that each simulated node may hold a link to one build; else beside the
 * file itself. */
static void locate(void)
{
    Dl_info self;
    char real[PATH_MAX];
    const char *chosen = secure_getenv("FLIGHTCHECK_NVML_STATE");
    if (chosen != NULL && *chosen != '\0') {
        if (!sim_copy_text(path, sizeof path, chosen))
            path[0] = '\0';
        return;
    }
    if (dladdr((void *)&slots, &self) == 0 || !beside(self.dli_fname, path))
        path[0] = '\0';
    else if (access(path, R_OK) != 0 && realpath(self.dli_fname, real) != NULL)
        beside(real, path);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The whole file with a NUL after it, or NULL with errno set. */
static char *read_whole(struct stat *identity, size_t *length)
{
    char *text = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return NULL;
    if (fstat(file, identity) != 0)
        goto done;
    errno = EINVAL;
    if (!S_ISREG(identity->st_mode) || identity->st_size > MAX_FILE)
        goto done;
    text = malloc((size_t)identity->st_size + 1);
    if (text == NULL)
        goto done;
    for (*length = 0; *length < (size_t)identity->st_size;) {
        ssize_t got = read(file, text + *length, (size_t)identity->st_size - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *length += (size_t)got;
    }
    text[*length] = '\0';
done:
    close(file);
    return text;
}

/* Gives every GPU the slot of its uuid. */
static bool assign_slots(struct sim_state *state)
{
    for (unsigned s = 0; s < slot_count; s++)
        slots[s].index = -1;
    for (unsigned i = 0; i < state->gpu_count; i++) {
        const char *uuid = state->gpu[i].text[GPU_TEXT_uuid];
        unsigned s = 0;
        while (s < slot_count && strcmp(slots[s].uuid, uuid) != 0)
            s++;
        if (s == MAX_SLOTS)
            return false;
        if (s == slot_count) {
            sim_copy_text(slots[s].uuid, sizeof slots[s].uuid, uuid);
            slot_count++;
        }
        slots[s].index = (int)i;
        state->gpu[i].slot = &slots[s];
    }
    return true;
}

static nvmlReturn_t reload(void)
{
    char error[128] = "this process has seen too many different GPUs";
    struct sim_state *fresh = calloc(1, sizeof *fresh);
    size_t length = 0;
    char *text = fresh == NULL ? NULL : read_whole(&seen, &length);
    if (text == NULL) {
        sim_debug("cannot read the state file %s: %s", path, strerror(errno));
        free(fresh);
        return NVML_ERROR_UNINITIALIZED;
    }
    bool good = sim_parse(text, length, fresh, error, sizeof error) && assign_slots(fresh);
    free(text);
    if (!good) {
        sim_debug("state file %s: %s", path, error);
        free(fresh);
        return NVML_ERROR_UNKNOWN;
    }
    free(current);
    current = fresh;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_refresh(struct sim_state **state)
{
    struct stat now;
    if (stat(path, &now) != 0) {
        sim_debug("no state file at %s: %s", path, strerror(errno));
        memset(&seen, 0, sizeof seen);
        current_rc = NVML_ERROR_UNINITIALIZED;
    } else if (!same_file(&now, &seen)) {
        current_rc = reload();
    }
    *state = current;
    return current_rc;
}

nvmlReturn_t sim_open(const char *symbol)
{
    struct sim_call call = {.index = -1, .peer = -1};
    struct sim_state *state;
    sim_lock();
    if (open_count == 0)
        locate();
    nvmlReturn_t rc = sim_refresh(&state);
    if (rc == NVML_SUCCESS)
        sim_apply_fault(state, symbol, &call, &rc);
    if (rc == NVML_SUCCESS)
        open_count++;
    sim_unlock();
    return rc;
}

nvmlReturn_t sim_close(void)
{
    sim_lock();
    nvmlReturn_t rc = open_count > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (rc == NVML_SUCCESS)
        open_count--;
    sim_unlock();
    return rc;
}

static int index_of(const struct sim_state *state, const struct sim_target *target)
{
    unsigned domain, bus, device;
    if (target->lookup == SIM_BY_BUS_ID &&
        !sim_parse_bus_id(target->text, &domain, &bus, &device))
        return -1;
    for (unsigned i = 0; i < state->gpu_count; i++) {
        const struct sim_gpu *gpu = &state->gpu[i];
        if (target->lookup == SIM_BY_BUS_ID
                ? gpu->domain == domain && gpu->bus == bus && gpu->device == device
                : strcmp(target->text, target->lookup == SIM_BY_UUID
                                           ? gpu->text[GPU_TEXT_uuid]
                                           : gpu->text[GPU_TEXT_serial]) == 0)
            return (int)i;
    }
    return -1;
}

static nvmlReturn_t from_handle(nvmlDevice_t device, int *index)
{
    uintptr_t offset = (uintptr_t)device - (uintptr_t)slots;
    if (offset % sizeof *slots != 0 || offset / sizeof *slots >= slot_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = slots[offset / sizeof *slots].index;
    return *index < 0 ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t sim_resolve(const struct sim_state *state, const struct sim_target *target,
                         struct sim_call *call)
{
    nvmlReturn_t rc = NVML_SUCCESS;
    call->index = call->peer = -1;
    if (target->lookup == SIM_BY_HANDLE) {
        rc = from_handle(target->device, &call->index);
        if (rc == NVML_SUCCESS && target->peer != NULL)
            rc = from_handle(target->peer, &call->peer);
    } else if (target->lookup == SIM_BY_INDEX) {
        if (target->index >= state->gpu_count)
            return NVML_ERROR_INVALID_ARGUMENT;
        call->index = (int)target->index;
    } else if (target->lookup != SIM_NONE) {
        if (target->text == NULL)
            return NVML_ERROR_INVALID_ARGUMENT;
        call->index = index_of(state, target);
        if (call->index < 0)
            return NVML_ERROR_NOT_FOUND;
    }
    return rc;
}
