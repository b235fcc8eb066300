/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/socket/gpunet_words.h"

#include "tests/socket/gpunet_run.h"

int words_gpu_start(struct gpunet *g)
{
    return gpunet_start(g);
}

int words_gpu_run(struct sockaddr_in *addr, int *result, int messages)
{
    words_client<<<1, 32>>>(addr, result, messages);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : -EIO;
}
