/* SPDX-License-Identifier: Apache-2.0 */
/* GW_DEFER, gw_ring, gw_tx_ring: one thread posts many requests and rings the NIC's doorbell once. */
#include "defer.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int ok = !pair_run(p, &defer, 1);

    for (uint32_t i = 0; i < 16; i++)
        ok &= pair_memory(p, 0)[i] == i + 1 && pair_memory(p, 1)[256 + i] == i + 1;
    return pair_close(p, ok);
}
