/* Loads each state file named on the command line and calls everything.
 * Prints how many were accepted and refused. Compiled with sanitizers. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

nvmlReturn_t nvmlInitWithFlags(unsigned flags);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned length);
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned length);
nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *text);
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned error, unsigned counter,
                                         unsigned long long *count);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                       unsigned long long *addresses);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *state);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, unsigned capability,
                                    unsigned *status);

/* Heap blocks of the exact size: one byte too many is caught. */
static void read_device(nvmlDevice_t device, nvmlDevice_t other)
{
    unsigned count = 2, state;
    unsigned long long sum;
    nvmlPciInfo_t *pci = malloc(sizeof *pci);
    nvmlPciInfo_v2_t *old_pci = malloc(sizeof *old_pci);
    nvmlMemory_t memory;
    nvmlGpuFabricInfo_v3_t *fabric = malloc(36);
    nvmlProcessInfo_t *processes = malloc(2 * sizeof *processes);
    unsigned long long *pages = malloc(2 * sizeof *pages);
    char *text = malloc(64);

    nvmlDeviceGetPciInfo_v3(device, pci);
    nvmlDeviceGetPciInfo_v2(device, old_pci);
    for (unsigned length = 0; length < 64; length++)
        nvmlDeviceGetName(device, text, length);
    nvmlDeviceGetGspFirmwareVersion(device, text);
    nvmlDeviceGetTotalEccErrors(device, 1, 0, &sum);
    nvmlDeviceGetMemoryInfo(device, &memory);
    nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes);
    count = 2;
    nvmlDeviceGetRetiredPages(device, 0, &count, pages);
    for (unsigned link = 0; link < 40; link++) {
        nvmlDeviceGetNvLinkState(device, link, &state);
        nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
    }
    *(unsigned *)fabric = 36 | 2u << 24; /* a caller that has only version 2 */
    nvmlDeviceGetGpuFabricInfoV(device, fabric);
    for (unsigned capability = 0; capability < 8; capability++)
        nvmlDeviceGetP2PStatus(device, other, capability, &state);
    nvmlFieldValue_t *fields = calloc(310, sizeof *fields);
    for (unsigned id = 0; id < 310; id++)
        fields[id].fieldId = id;
    nvmlDeviceGetFieldValues(device, 310, fields);
    free(fields);
    free(pci);
    free(old_pci);
    free(fabric);
    free(processes);
    free(pages);
    free(text);
}

int main(int count, char **paths)
{
    int good = 0, bad = 0;
    nvmlDevice_t previous = NULL;
    for (int i = 1; i < count; i++) {
        nvmlDevice_t device = NULL;
        char text[8];
        setenv("FLIGHTCHECK_NVML_STATE", paths[i], 1);
        if (nvmlInitWithFlags(0) != NVML_SUCCESS) {
            bad++;
            continue;
        }
        good++;
        nvmlSystemGetDriverVersion(text, sizeof text);
        nvmlSystemGetProcessName(1, text, sizeof text);
        nvmlDeviceGetHandleByPciBusId_v2("0000:1b:00.0", &device);
        for (unsigned gpu = 0; gpu < 33; gpu++)
            if (nvmlDeviceGetHandleByIndex_v2(gpu, &device) == NVML_SUCCESS) {
                read_device(device, previous);
                previous = device;
            }
        nvmlShutdown();
    }
    printf("%d %d\n", good, bad);
    return 0;
}
