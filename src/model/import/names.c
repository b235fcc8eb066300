/* SPDX-License-Identifier: Apache-2.0 */
/* Names of values: open addressing, sized once. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/import/names.h"

#include "src/model/graph/msg.h"

struct gwm_names {
    uint64_t seed, mask;
    struct gwm_name slot[];
};

struct gwm_names *gwm_names_new(size_t count)
{
    size_t size = 64;

    while (size < 2 * count) size *= 2;
    struct gwm_names *t = calloc(1, sizeof(*t) + size * sizeof(t->slot[0]));
    if (t) {
        t->mask = size - 1;
        t->seed =
            (uintptr_t)t * 0x9e3779b97f4a7c15u; /* differs from run to run: no file can be made to collide */
    }
    return t;
}

/* The number of a name's slot, or of the free one where it belongs. */
static size_t names_at(const struct gwm_names *t, const char *name)
{
    uint64_t h = t->seed;

    for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    h ^= h >> 29;
    while (t->slot[h & t->mask].name && strcmp(t->slot[h & t->mask].name, name)) h++;
    return h & t->mask;
}

const struct gwm_name *gwm_names_find(const struct gwm_names *t, const char *name)
{
    return &t->slot[names_at(t, name)];
}

int gwm_define(struct gwm_import *im, const char *name, int value)
{
    struct gwm_name *s = &im->names->slot[names_at(im->names, name)];

    if (s->name) return gwm_fail(im->msg, -EBADMSG, "the value '%.60s' is made twice", name);
    s->name = name;
    s->value = value;
    return 0;
}
