/* SPDX-License-Identifier: Apache-2.0 */
/* `gpuwire app matmul load` as a program of its own: an ordinary sockets program, which uses no library of
 * gpuwire's. `gpuwire app matmul-client` starts it, too. */
#include <signal.h>
#include <stddef.h>

#include "load.h"

static volatile sig_atomic_t interrupted;

static void client_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

static int client_stopped(void)
{
    return interrupted;
}

int main(int argc, char **argv)
{
    signal(SIGINT, client_signal);
    signal(SIGTERM, client_signal);
    return mm_load_main("app matmul-client", argc, argv, client_stopped);
}
