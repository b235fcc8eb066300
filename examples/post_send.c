/* SPDX-License-Identifier: Apache-2.0 */
/* gw_post_send, gw_post_recv, gw_poll_cq: libibverbs' structs and meanings, in a kernel. */
#include "post_send.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int err = pair_run(p, &post_send, 1);

    return pair_close(p, !err && pair_memory(p, 1)[0] == 42 && pair_memory(p, 1)[1] == 42);
}
