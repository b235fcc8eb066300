/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a plan, in the form that its steps read. They are found by what they hold, so plans that
 * share weights have one copy of what is equal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/cpu/constants.h"

#include "src/model/cpu/steps.h"

#define CONSTANT_ALIGN 64

void *gwm_constant_room(size_t bytes)
{
    size_t room = (bytes + 2 * CONSTANT_ALIGN - 1) / CONSTANT_ALIGN * CONSTANT_ALIGN;
    void *made = aligned_alloc(CONSTANT_ALIGN, room);

    return made ? memset(made, 0, room) : NULL;
}

/* Brings constants to the caller's addresses. */
static int constant_copy(struct gwm_cpu *p, const struct gwm_key *key, const void *from, char **at)
{
    int err = gwm_weights_place(p->weights, key, at);

    if (!err) memcpy(*at, from, key->bytes);
    return err;
}

/* The same, where the weights have their own memory: they keep what was made. */
static int constant_keep(struct gwm_cpu *p, const struct gwm_key *key, void *made, char **at)
{
    int err = gwm_weights_keep(p->weights, made, free);

    *at = (char *)made;
    return err ? err : gwm_weights_note(p->weights, key, *at);
}

int gwm_constant_take(struct gwm_cpu *p, void *made, size_t bytes)
{
    struct gwm_key key = gwm_key_of(made, bytes);
    char *at = gwm_weights_find(p->weights, &key);
    bool fresh = !at, keep = fresh && bytes <= p->most - p->weight_bytes && !gwm_weights_given(p->weights);
    int err = fresh && bytes > p->most - p->weight_bytes ? -E2BIG : 0;

    if (fresh && !err) err = keep ? constant_keep(p, &key, made, &at) : constant_copy(p, &key, made, &at);
    if (!keep) free(made);
    int b = err ? err : gwm_cpu_buf(p, bytes);
    if (b < 0) return b;
    if (fresh) p->weight_bytes += bytes;
    p->buf[b].kind = GWM_BUF_FIXED;
    p->buf[b].fixed = at;
    return b;
}

int gwm_constants_place(struct gwm_cpu *p)
{
    int err = 0;

    for (int v = 0; v < p->g->nvalue && !err && gwm_weights_given(p->weights); v++) {
        struct gwm_buf *b = &p->buf[v];
        if (b->kind != GWM_BUF_FIXED || b->first < 0 || !b->bytes) continue;
        struct gwm_key key = gwm_key_of(b->fixed, b->bytes);
        char *at = gwm_weights_find(p->weights, &key);
        if (!at && b->bytes > p->most - p->weight_bytes) return -E2BIG;
        if (!at && !(err = constant_copy(p, &key, b->fixed, &at))) p->weight_bytes += b->bytes;
        if (!err) b->fixed = at;
    }
    return err;
}
