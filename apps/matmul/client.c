/* SPDX-License-Identifier: Apache-2.0 */
/* `gpuwire app matmul load` as a program of its own: an ordinary sockets program. */
#include <signal.h>
#include <stddef.h>

#include "load.h"

static volatile int interrupted;

static void client_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

int main(int argc, char **argv)
{
    signal(SIGINT, client_signal);
    signal(SIGTERM, client_signal);
    return mm_load_main("matmul-client", argc, argv, &interrupted);
}
