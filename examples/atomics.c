/* SPDX-License-Identifier: Apache-2.0 */
/* gw_fetch_add_op, gw_cmp_swap_op, gw_masked_fetch_add_op, gw_with_masks: on a word of the peer's. */
#include "atomics.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    const uint64_t *old = pair_memory(p, 0), *word = pair_memory(p, 1);

    pair_memory(p, 1)[0] = 100;
    int result = pair_run(p, &atomics, 1);
    int ok = result >= 0 && old[0] == 100 && old[1] == 105;

    if (result == 1) return pair_close(p, ok && word[0] == 0x1ff); /* without the masked ones */
    /* 0xff + 2 without its carry is 1; the byte above was, and stays, 1. */
    return pair_close(p, ok && old[2] == 0x1ff && old[3] == 0x101 && word[0] == 0x1aa);
}
