/* SPDX-License-Identifier: Apache-2.0 */
/* gw_post_op, gw_put_op, gw_get_op, gw_wait_cq: a kernel writes to its peer's memory and reads it back. */
#include "put_get.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int err = pair_run(p, &put_get, 1);

    return pair_close(p, !err && pair_memory(p, 1)[0] == 42 && pair_memory(p, 0)[1] == 42);
}
