/* SPDX-License-Identifier: Apache-2.0 */
/* gw_put_imm_op, gw_recv_empty, gw_wc_imm: a write that tells the peer, with a number of 32 bits, that it is
 * there. */
#include "put_imm.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int err = pair_run(p, &put_imm, 1);

    return pair_close(p, !err && pair_memory(p, 1)[1] == 42 && pair_memory(p, 1)[2] == 42);
}
