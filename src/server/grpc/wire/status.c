/* SPDX-License-Identifier: Apache-2.0 */
/* Names of gRPC's status codes, its percent-encoding, and its timeouts. */
#include "src/server/grpc/wire/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 8 /* of a grpc-timeout */

static const char *const status_names[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

const char *gw_grpc_status_name(unsigned status)
{
    return status < sizeof(status_names) / sizeof(status_names[0]) ? status_names[status] : "unknown";
}

unsigned gw_grpc_status_parse(const uint8_t *text, size_t n)
{
    unsigned v = 0;
    if (!n || n > 3) return GW_GRPC_UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return GW_GRPC_UNKNOWN;
        v = 10 * v + (unsigned)(text[i] - '0');
    }
    return v;
}

/* ---- messages ---- */

void gw_grpc_percent_encode(char *to, size_t size, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t at = 0;
    for (const uint8_t *t = (const uint8_t *)text; *t; t++) {
        int plain = *t >= ' ' && *t <= '~' && *t != '%';
        if (at + (plain ? 1 : 3) >= size) break;
        if (plain) {
            to[at++] = (char)*t;
            continue;
        }
        to[at++] = '%';
        to[at++] = hex[*t >> 4];
        to[at++] = hex[*t & 15];
    }
    to[at] = 0;
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void gw_grpc_percent_decode(char *to, size_t size, const uint8_t *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at + 1 < size; i++) {
        int hi = text[i] == '%' && i + 2 < n ? hex_value(text[i + 1]) : -1;
        int lo = hi >= 0 ? hex_value(text[i + 2]) : -1;
        if (lo >= 0) i += 2;
        to[at++] = (char)(lo >= 0 ? hi << 4 | lo : text[i]);
    }
    to[at] = 0;
}

/* ---- times ---- */

static const struct unit {
    char letter;
    uint64_t ns;
} units[] = {{'n', 1},          {'u', 1000},         {'m', 1000000},
             {'S', 1000000000}, {'M', 60000000000u}, {'H', 3600000000000u}};
#define UNITS (sizeof(units) / sizeof(units[0]))

int gw_grpc_timeout_parse(const uint8_t *text, size_t n, uint64_t *ns)
{
    uint64_t v = 0;
    if (n < 2 || n > DIGITS + 1) return -EINVAL;
    for (size_t i = 0; i + 1 < n; i++) {
        if (text[i] < '0' || text[i] > '9') return -EINVAL;
        v = 10 * v + (uint64_t)(text[i] - '0');
    }
    for (size_t i = 0; i < UNITS; i++) {
        if (text[n - 1] != units[i].letter) continue;
        *ns = v > UINT64_MAX / 4 / units[i].ns ? UINT64_MAX : v * units[i].ns;
        return 0;
    }
    return -EINVAL;
}

void gw_grpc_timeout_format(char to[GW_GRPC_TIMEOUT], uint64_t ns)
{
    size_t i = 0;
    while (i + 1 < UNITS && ns / units[i].ns > 99999998u) i++;
    uint64_t v = ns / units[i].ns + (ns % units[i].ns != 0);
    snprintf(to, GW_GRPC_TIMEOUT, "%u%c", v > 99999999u ? 99999999u : (unsigned)v, units[i].letter);
}
