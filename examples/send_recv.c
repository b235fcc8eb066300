/* SPDX-License-Identifier: Apache-2.0 */
/* gw_send_op, gw_recv: a message goes into the peer's next receive, and the peer's kernel sees it
 * complete. */
#include "send_recv.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int err = pair_run(p, &send_recv, 1);

    return pair_close(p, !err && pair_memory(p, 1)[0] == 42);
}
