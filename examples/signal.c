/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_with_signal: a write, and after it a word that the peer polls for in its memory. No receive and no
 * completion at the peer. Where the peer may do so: docs/verbs.md, "Fast calls".
 */
#include "signal.h"

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    int err = pair_run(p, &put_signal, 1);

    return pair_close(p, !err && pair_memory(p, 1)[0] == 42);
}
