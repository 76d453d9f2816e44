/* Parsers for one value of the state file. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvml_abi.h"
#include "state.h"

/* Decimal, with a sign or not, or 0x hexadecimal. */
bool sim_parse_number(const char *text, uint64_t *value)
{
    char *end = NULL;
    int base = strncmp(text, "0x", 2) == 0 ? 16 : 10;
    if (!isdigit((unsigned char)text[text[0] == '-']))
        return false;
    errno = 0;
    *value = text[0] == '-' ? (uint64_t)strtoll(text, &end, base) : strtoull(text, &end, base);
    return errno == 0 && *end == '\0';
}

bool sim_parse_index(const char *text, unsigned limit, unsigned *index)
{
    uint64_t value;
    if (text[0] == '-' || !sim_parse_number(text, &value) || value >= limit)
        return false;
    *index = (unsigned)value;
    return true;
}

bool sim_copy_text(char *target, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size)
        return false;
    memcpy(target, text, length + 1);
    return true;
}

/* One hexadecimal field of a PCI address, up to `digits` long. */
static bool hex_field(const char **text, size_t digits, unsigned *value)
{
    size_t length = strspn(*text, "0123456789abcdefABCDEF");
    if (length == 0 || length > digits)
        return false;
    *value = (unsigned)strtoul(*text, NULL, 16);
    *text += length;
    return true;
}

bool sim_parse_bus_id(const char *text, unsigned *domain, unsigned *bus, unsigned *device)
{
    unsigned function;
    const char *colon = strchr(text, ':');
    *domain = 0;
    if (colon != NULL && strchr(colon + 1, ':') != NULL) {
        if (!hex_field(&text, 8, domain) || *text++ != ':')
            return false;
    }
    return hex_field(&text, 2, bus) && *text++ == ':' && hex_field(&text, 2, device) &&
           *text++ == '.' && hex_field(&text, 1, &function) && *text == '\0';
}

/* The word after `verb`, as a number below `limit`. */
static bool fault_argument(char **rest, unsigned limit, unsigned *value)
{
    char *word = strtok_r(NULL, " \t", rest);
    return word != NULL && sim_parse_index(word, limit, value);
}

static bool fault_word(const char *word, char **rest, struct sim_fault *fault)
{
    unsigned code = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (strcmp(word, "delay_ms") == 0)
        return fault_argument(rest, 86400001, &fault->delay_ms);
    if (strcmp(word, "after") == 0)
        return fault_argument(rest, 1000000000, &fault->after);
    if (strcmp(word, "times") == 0)
        return fault_argument(rest, 1000000000, &fault->times);
    if (strcmp(word, "hang") == 0)
        fault->effect = SIM_HANG;
    else if (strcmp(word, "hang-deaf") == 0)
        fault->effect = SIM_HANG_DEAF;
    else if (strcmp(word, "abort") == 0)
        fault->effect = SIM_ABORT;
    else if (strcmp(word, "missing") == 0 ||
             (strcmp(word, "return") == 0 && fault_argument(rest, 65536, &code))) {
        fault->effect = SIM_RETURN;
        fault->code = (int)code;
    } else {
        return false;
    }
    return true;
}

bool sim_parse_fault(char *symbol, const char *gpu, char *effects, struct sim_fault *fault)
{
    unsigned index;
    char *rest = NULL;
    fault->gpu = -1;
    if (gpu != NULL && strcmp(gpu, "*") != 0) {
        if (!sim_parse_index(gpu, SIM_MAX_GPUS, &index))
            return false;
        fault->gpu = (int)index;
    }
    char *word = strtok_r(effects, " \t", &rest);
    if (word == NULL || !sim_copy_text(fault->symbol, sizeof fault->symbol, symbol))
        return false;
    for (; word != NULL; word = strtok_r(NULL, " \t", &rest))
        if (!fault_word(word, &rest, fault))
            return false;
    return true;
}
