/* SPDX-License-Identifier: Apache-2.0 */
/* gw_tx_post_block, gw_tx_wait_block, gw_tx_post_warp, gw_tx_wait_warp, gw_post_op_warp: many threads, one
 * doorbell. */
#include <stdio.h>

#include "together.h"

#define THREADS 64

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    const uint64_t *a = pair_memory(p, 0), *b = pair_memory(p, 1);
    int ok = !pair_run(p, &together, THREADS) && a[128] == 1;
    uint32_t n = 0;

    /* The CPU executor may have given the block fewer threads (--lanes). */
    while (n < THREADS && b[n] == n + 1) n++;
    ok &= n >= 1 && b[n] == 0;
    for (uint32_t i = 0; i < 32 && i < n; i++) ok &= a[256 + i] == (i % 2 ? 0 : i + 1);
    printf("%u threads posted together\n", n);
    return pair_close(p, ok);
}
