/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the registry: names with any characters become parts of a path, and back. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/registry/entry.h"

static const char *const entry_key_folders[] = {[FLEET_ENTRY_WORKER] = "workers/",
                                                [FLEET_ENTRY_MODEL] = "models/",
                                                [FLEET_ENTRY_PLACE] = "places/",
                                                [FLEET_ENTRY_DRAIN] = "drain/"};
enum { KINDS = sizeof(entry_key_folders) / sizeof(entry_key_folders[0]) };

static bool entry_key_is_plain(unsigned char c)
{
    return isalnum(c) || c == '.' || c == '_' || c == '-';
}

static size_t entry_key_encode(const char *name, char *to)
{
    size_t n = 0;
    for (; *name; name++) {
        if (entry_key_is_plain((unsigned char)*name))
            to[n++] = *name;
        else
            n += (size_t)sprintf(to + n, "%%%02X", (unsigned char)*name);
    }
    to[n] = 0;
    return n;
}

static int entry_key_check(const char *what, const char *name, size_t size)
{
    if (!*name) return gw_error(-EINVAL, "the %s has no name", what);
    if (!fleet_text_ok(name, size))
        return gw_error(-EINVAL, "a %s's name must be UTF-8 of %zu bytes at most, without control characters",
                        what, size - 1);
    return 0;
}

int fleet_entry_prefix(const char *fleet, char to[FLEET_ENTRY_KEY])
{
    int err = strnlen(fleet, FLEET_NAME) == FLEET_NAME
                  ? gw_error(-EINVAL, "a fleet's name has %d bytes at most", FLEET_NAME - 1)
                  : entry_key_check("fleet", fleet, FLEET_NAME);
    if (err) return err;
    size_t n = (size_t)sprintf(to, "gpuwire/");
    n += entry_key_encode(fleet, to + n);
    snprintf(to + n, FLEET_ENTRY_KEY - n, "/");
    return 0;
}

int fleet_entry_key(const char *prefix, enum fleet_entry_kind kind, const char *name, const char *model,
                    char to[FLEET_ENTRY_KEY])
{
    if (kind == FLEET_ENTRY_LEADER) {
        snprintf(to, FLEET_ENTRY_KEY, "%sleader", prefix);
        return 0;
    }
    bool is_model = kind == FLEET_ENTRY_MODEL;
    int err = entry_key_check(is_model ? "model" : "worker", name, is_model ? FLEET_MODEL : FLEET_NAME);
    if (!err && model) err = entry_key_check("model", model, FLEET_MODEL);
    if (err) return err;
    size_t n = (size_t)sprintf(to, "%s%s", prefix, entry_key_folders[kind]);
    n += entry_key_encode(name, to + n);
    if (!model) return 0;
    to[n++] = '/';
    entry_key_encode(model, to + n);
    return 0;
}

static int entry_key_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A name in the one form that entry_key_encode gives it. */
static bool entry_key_decode(const char *from, size_t bytes, char *to, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++, n++) {
        if (n + 1 >= size) return false;
        unsigned char c = (unsigned char)from[i];
        if (c == '%') {
            int high = i + 2 < bytes ? entry_key_digit(from[i + 1]) : -1;
            int low = i + 2 < bytes ? entry_key_digit(from[i + 2]) : -1;
            if (high < 0 || low < 0) return false;
            c = (unsigned char)(high << 4 | low);
            if (entry_key_is_plain(c)) return false;
            i += 2;
        } else if (!entry_key_is_plain(c)) {
            return false;
        }
        to[n] = (char)c;
    }
    to[n] = 0;
    return n && strlen(to) == n && fleet_text_ok(to, size);
}

static enum fleet_entry_kind entry_key_kind(const char *from, size_t bytes, size_t *used)
{
    *used = 0;
    if (bytes == 6 && !memcmp(from, "leader", 6)) return FLEET_ENTRY_LEADER;
    for (int i = FLEET_ENTRY_WORKER; i < KINDS; i++) {
        *used = strlen(entry_key_folders[i]);
        if (bytes > *used && !memcmp(from, entry_key_folders[i], *used)) return (enum fleet_entry_kind)i;
    }
    return FLEET_ENTRY_OTHER;
}

bool fleet_entry_parse_key(const char *prefix, struct fleet_etcd_bytes key, struct fleet_entry_name *to)
{
    size_t n = strlen(prefix), used;
    memset(to, 0, sizeof(*to));
    if (key.bytes <= n || memcmp(key.data, prefix, n)) return false;
    const char *from = (const char *)key.data + n;
    size_t bytes = key.bytes - n;
    to->kind = entry_key_kind(from, bytes, &used);
    from += used;
    bytes -= used < bytes ? used : bytes;
    switch (to->kind) {
    case FLEET_ENTRY_WORKER:
    case FLEET_ENTRY_DRAIN: return entry_key_decode(from, bytes, to->name, FLEET_NAME);
    case FLEET_ENTRY_MODEL: return entry_key_decode(from, bytes, to->name, FLEET_MODEL);
    case FLEET_ENTRY_PLACE: {
        const char *slash = memchr(from, '/', bytes);
        if (!slash) return false;
        size_t first = (size_t)(slash - from);
        return entry_key_decode(from, first, to->name, FLEET_NAME) &&
               entry_key_decode(slash + 1, bytes - first - 1, to->model, FLEET_MODEL);
    }
    default: return true;
    }
}
