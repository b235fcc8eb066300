/* SPDX-License-Identifier: Apache-2.0 */
/* gw_tx_open, gw_tx_post, gw_tx_wait, gw_tx_flush, gw_put_op: the fast calls. A post gives a ticket; the
 * program does not poll. */
#include "ticket.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int ok = !pair_run(p, &ticket, 1);

    for (uint32_t i = 0; i < 64; i++) ok &= pair_memory(p, 1)[i] == i + 1;
    return pair_close(p, ok);
}
