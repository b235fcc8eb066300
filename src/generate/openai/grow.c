/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that wait between two threads, in arrays that grow. */
#include <stdlib.h>
#include <string.h>

#include "src/generate/openai/impl.h"

static bool grow_fits(void **at, uint32_t *room, uint32_t count, size_t each)
{
    uint32_t wanted = *room ? *room : 16;
    while (wanted < count) wanted *= 2;
    if (wanted == *room) return true;
    void *bigger = realloc(*at, wanted * each);
    if (!bigger) return false;
    *at = bigger;
    *room = wanted;
    return true;
}

void gen_tokens_add(struct gen_tokens *t, const struct gen_token *one, const struct gen_top *top)
{
    if (!grow_fits((void **)&t->at, &t->room, t->count + 1, sizeof(*t->at)) ||
        (one->tops && !grow_fits((void **)&t->top, &t->top_room, t->tops + one->tops, sizeof(*t->top)))) {
        t->last = GEN_FAILED;
        return;
    }
    t->at[t->count++] = *one;
    if (one->tops) memcpy(&t->top[t->tops], top, one->tops * sizeof(*top));
    t->tops += one->tops;
}

void gen_tokens_free(struct gen_tokens *t)
{
    free(t->at);
    free(t->top);
    *t = (struct gen_tokens){0};
}
