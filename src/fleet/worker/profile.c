/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: reads what was measured of a model. */
#include "src/fleet/worker/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define US INT64_C(1000)

enum { PROFILE_LINE = 512, PROFILE_SECONDS = 3600 };

/* A batch of n on the first takes 2.73 ms, as Clockwork published it. On the second, one takes 0.447 ms, as
 * we measured in fp16. What further samples cost is assumed: see docs/notes/fleet-policies.md. */
static const struct fleet_profile known[] = {
    {.name = "resnet50-v100",
     .exec_ns = {2730 * US, 3549 * US, 5187 * US, 8463 * US, 15015 * US},
     .spread_ns = 150 * US,
     .load_ns = 8300 * US,
     .disk_ns = 100000 * US,
     .pages = 7,
     .request_bytes = 3 * 224 * 224 * 4,
     .answer_bytes = 1000 * 4},
    {.name = "resnet50-h200",
     .exec_ns = {447 * US, 501 * US, 608 * US, 822 * US, 1252 * US},
     .spread_ns = 15 * US,
     .load_ns = 2000 * US,
     .disk_ns = 100000 * US,
     .pages = 7,
     .request_bytes = 3 * 224 * 224 * 4,
     .answer_bytes = 1000 * 4},
};

#define FIELD(name, field, n, most)                                                                          \
    {                                                                                                        \
        name, offsetof(struct fleet_profile, field), sizeof(((struct fleet_profile *)0)->field) / (n), n,    \
            most                                                                                             \
    }
static const struct profile_field {
    const char *name;
    size_t at, size;
    uint32_t n;
    uint64_t most;
} fields[] = {
    FIELD("exec_ns", exec_ns, 5, PROFILE_SECONDS *UINT64_C(1000000000)),
    FIELD("spread_ns", spread_ns, 1, PROFILE_SECONDS *UINT64_C(1000000000)),
    FIELD("load_ns", load_ns, 1, PROFILE_SECONDS *UINT64_C(1000000000)),
    FIELD("disk_ns", disk_ns, 1, PROFILE_SECONDS *UINT64_C(1000000000)),
    FIELD("pages", pages, 1, 1 << 20),
    FIELD("request_bytes", request_bytes, 1, 1 << 24),
    FIELD("answer_bytes", answer_bytes, 1, 1 << 24),
};

/* The numbers of one field; false: they are not what it takes. */
static bool profile_numbers(const struct profile_field *f, const char *text, struct fleet_profile *p)
{
    for (uint32_t i = 0; i < f->n; i++) {
        char *end;
        errno = 0;
        unsigned long long v = strtoull(text, &end, 10);
        if (end == text || errno || v > f->most || *(text + strspn(text, " \t")) == '-') return false;
        uint32_t small = (uint32_t)v;
        memcpy((char *)p + f->at + i * f->size, f->size == sizeof(small) ? (void *)&small : (void *)&v,
               f->size);
        text = end;
    }
    return !text[strspn(text, " \t\r\n")];
}

static bool profile_line(char *line, struct fleet_profile *p)
{
    char *key = line + strspn(line, " \t\r\n");
    if (!*key || *key == '#') return true;
    char *end = key + strcspn(key, " \t\r\n");
    if (*end) *end++ = 0;
    if (!strcmp(key, "name")) {
        char *name = end + strspn(end, " \t");
        name[strcspn(name, " \t\r\n")] = 0;
        if (!*name || strlen(name) >= sizeof(p->name)) return false;
        memcpy(p->name, name, strlen(name) + 1);
        return true;
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (!strcmp(key, fields[i].name)) return profile_numbers(&fields[i], end, p);
    return false;
}

static bool profile_makes_sense(const struct fleet_profile *p)
{
    for (int i = 0; i < 5; i++)
        if (p->exec_ns[i] <= 0 || (i && p->exec_ns[i] < p->exec_ns[i - 1])) return false;
    return p->spread_ns < p->exec_ns[4] && p->pages && p->request_bytes && p->request_bytes % 4 == 0 &&
           p->answer_bytes && p->answer_bytes % 4 == 0;
}

static int profile_file(const char *path, struct fleet_profile *p)
{
    char line[PROFILE_LINE];
    int err = 0, number = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return gw_error_errno(-errno, "profile %s (neither resnet50-v100, resnet50-h200 nor a file)", path);
    while (!err && fgets(line, sizeof(line), f)) {
        number++;
        if (!profile_line(line, p))
            err = gw_error(-EINVAL, "profile %s: line %d is no field with its numbers", path, number);
    }
    fclose(f);
    if (!err && !profile_makes_sense(p))
        err =
            gw_error(-EINVAL,
                     "profile %s: exec_ns must grow, spread_ns must be less than its last number, and sizes "
                     "must be multiples of 4",
                     path);
    return err;
}

int fleet_profile_read(const char *name, struct fleet_profile *out)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name)) continue;
        *out = known[i];
        out->name[strcspn(out->name, "-")] = 0;
        return 0;
    }
    *out = known[0];
    snprintf(out->name, sizeof(out->name), "model");
    return profile_file(name, out);
}

int64_t fleet_profile_exec(const struct fleet_profile *p, uint32_t n)
{
    int i = 0;
    while (1U << i < n) i++;
    return p->exec_ns[i];
}
