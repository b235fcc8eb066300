/* SPDX-License-Identifier: Apache-2.0 */
/* A client as it was written for GPUnet, in CUDA's words, compiled by nvcc and as C. Included by
 * gpunet_words.c and .cu. */
#define GPUNET_CUDA_WORDS
#include <gpuwire/gpunet_compat.h>

#define WORDS_BYTES 1000

__global__ void words_client(struct sockaddr_in *addr, int *result, int messages)
{
    __shared__ int sock;
    __shared__ uchar buf[WORDS_BYTES];
    int ret = 0, i, k;
    uint64_t until = gw_clock_ns() + 20000000000ul;

    while ((sock = gconnect_in(addr)) < 0 && gw_clock_ns() < until) {
    }
    if (sock < 0) {
        *result = sock;
        return;
    }
    for (i = 0; i < messages; i++) {
        int recved = 0, sent = 0;

        BEGIN_SINGLE_THREAD_PART
        for (k = 0; k < WORDS_BYTES; k++) buf[k] = (uchar)(i + k);
        END_SINGLE_THREAD_PART
        do {
            ret = gsend(sock, buf + sent, WORDS_BYTES - sent);
            if (ret < 0) goto out;
            sent += ret;
        } while (sent < WORDS_BYTES);
        do {
            ret = grecv(sock, buf + recved, WORDS_BYTES - recved);
            if (ret <= 0) goto out;
            recved += ret;
        } while (recved < WORDS_BYTES);
        gw_syncthreads();
        for (k = 0; k < WORDS_BYTES; k++)
            if (buf[k] != (uchar)(i + k)) ret = -EBADMSG;
        gw_syncthreads();
        if (ret < 0) goto out;
    }
out:
    BEGIN_SINGLE_THREAD_PART
    single_thread_gclose(sock);
    *result = ret < 0 ? ret : i;
    END_SINGLE_THREAD_PART
}
