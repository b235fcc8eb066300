/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts values by merging: each comparison counts as work, and may fail. */
#include "src/generate/text/jinja_sort.h"

#include <string.h>

static bool sort_merge(struct gen_jinja *j, const struct gen_jlist *keys, size_t *from, size_t *to,
                       const size_t bounds[3])
{
    size_t left = bounds[0], right = bounds[1];
    for (size_t i = bounds[0]; i < bounds[2]; i++) {
        int order = 0;
        if (left < bounds[1] && right < bounds[2] &&
            (!gen_j_work(j, 1) || !gen_j_order(j, &keys->at[from[left]], &keys->at[from[right]], &order)))
            return false;
        bool take_left = right == bounds[2] || (left < bounds[1] && order <= 0);
        to[i] = from[take_left ? left++ : right++];
    }
    return true;
}

static struct gen_jvalue *sort_pick(struct gen_jinja *j, const struct gen_jlist *list, const size_t *places)
{
    struct gen_jvalue *at = gen_j_take(j, (list->count + 1) * sizeof(*at));
    for (size_t i = 0; at && i < list->count; i++) at[i] = list->at[places[i]];
    return at;
}

bool gen_j_sort_pairs(struct gen_jinja *j, struct gen_jlist *keys, struct gen_jlist *values)
{
    size_t n = keys->count, *from = gen_j_take(j, (n + 1) * sizeof(*from)),
           *to = gen_j_take(j, (n + 1) * sizeof(*to));
    if (!from || !to) return false;
    for (size_t i = 0; i < n; i++) from[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t bounds[3] = {low, low + width < n ? low + width : n,
                                low + 2 * width < n ? low + 2 * width : n};
            if (!sort_merge(j, keys, from, to, bounds)) return false;
        }
        size_t *other = from;
        from = to;
        to = other;
    }
    keys->at = sort_pick(j, keys, from);
    keys->room = n;
    if (values != keys && keys->at) {
        values->at = sort_pick(j, values, from);
        values->room = n;
    }
    return !j->err;
}
