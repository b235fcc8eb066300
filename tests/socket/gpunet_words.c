/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/gpunet_words.h"

#include "tests/socket/gpunet_run.h"

int words_cpu_start(struct gpunet *g)
{
    return gpunet_start(g);
}

int words_cpu_run(struct sockaddr_in *addr, int *result, int messages)
{
    words_client(addr, result, messages);
    return 0;
}
