/* The part of NVML's C ABI that the simulated library serves.
 *
 * Layouts and numbers follow NVIDIA's public nvml.h and the structures of
 * nvidia-ml-py; every size that a caller passes in a version word is asserted.
 */
#ifndef FLIGHTCHECK_NVML_ABI_H
#define FLIGHTCHECK_NVML_ABI_H

#include <stdint.h>

typedef int nvmlReturn_t;
typedef struct sim_slot *nvmlDevice_t; /* opaque to callers */

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

enum {
    NVML_VALUE_TYPE_UNSIGNED_INT = 1,
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
    NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
    NVML_VALUE_TYPE_SIGNED_INT = 5,
};

/* A version word is the structure's size with its version in the top byte. */
#define NVML_STRUCT_VERSION(type, version) ((unsigned)(sizeof(type) | ((unsigned)(version) << 24)))
#define ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " is not " #bytes)

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
ASSERT_SIZE(nvmlPciInfo_t, 68);

typedef struct {
    char busId[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId, reserved[4];
} nvmlPciInfo_v2_t;
ASSERT_SIZE(nvmlPciInfo_v2_t, 52);

typedef struct {
    unsigned version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
} nvmlPciInfoExt_v1_t;
ASSERT_SIZE(nvmlPciInfoExt_v1_t, 64);

typedef union {
    double dVal;
    int siVal;
    unsigned uiVal;
    unsigned long long ullVal;
    long long sllVal;
} nvmlValue_t;

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;
ASSERT_SIZE(nvmlFieldValue_t, 40);

typedef struct {
    unsigned version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor;
    unsigned long long volatileUncParity, volatileUncSecDed, volatileCor;
    unsigned long long aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie;
    unsigned long long aggregateUncBucketMcu, aggregateUncBucketOther;
    unsigned bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;
ASSERT_SIZE(nvmlEccSramErrorStatus_v1_t, 104);

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId, state;
} nvmlGpuFabricInfo_t;
ASSERT_SIZE(nvmlGpuFabricInfo_t, 28);

typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId, state, healthMask;
} nvmlGpuFabricInfo_v2_t;
ASSERT_SIZE(nvmlGpuFabricInfo_v2_t, 36);

typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId, state, healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;
ASSERT_SIZE(nvmlGpuFabricInfo_v3_t, 40);

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
ASSERT_SIZE(nvmlMemory_t, 24);

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
ASSERT_SIZE(nvmlMemory_v2_t, 40);

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
ASSERT_SIZE(nvmlProcessInfo_t, 24);

typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned version, sensorType;
    int temperature;
} nvmlTemperature_v1_t;
ASSERT_SIZE(nvmlTemperature_v1_t, 12);

typedef struct {
    unsigned version;
    int marginTemperature;
} nvmlMarginTemperature_v1_t;
ASSERT_SIZE(nvmlMarginTemperature_v1_t, 8);

typedef struct {
    unsigned version, bChannelRepairPending, bTpcRepairPending;
} nvmlRepairStatus_v1_t;
ASSERT_SIZE(nvmlRepairStatus_v1_t, 12);

typedef struct {
    unsigned max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;
ASSERT_SIZE(nvmlRowRemapperHistogramValues_t, 20);

#endif
