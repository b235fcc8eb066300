/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An echo client as one writes it for GPUnet, with its calls and its way to share variables. Three things
 * were added for gpuwire: connecting gives up after a time, the loop that receives ends when the peer is
 * gone, and the last line makes of the function what gw_launch takes.
 */
#include "gpunet.h"

#define CONNECT_NS 10000000000u

/* Sends one message, all of it, and receives as much. What the last call returned. */
__device__ int exchange(int sock, uchar *buf)
{
    int ret, recved = 0, sent = 0;

    do {
        ret = gsend(sock, buf + sent, BUF_SIZE - sent);
        if (ret < 0) return ret;
        sent += ret;
    } while (sent < BUF_SIZE);
    assert(sent == BUF_SIZE);

    do {
        ret = grecv(sock, buf + recved, BUF_SIZE - recved);
        if (ret <= 0) return ret ? ret : -ECONNABORTED; /* 0: the peer has closed */
        recved += ret;
    } while (recved < BUF_SIZE);
    return ret;
}

__global__ void gpuclient(struct sockaddr_in *addr, int *tb_alloc_tbl, int nr_tb)
{
    __shared__ int sock;
    __shared__ uchar buf[BUF_SIZE];
    uint64_t until = gw_clock_ns() + CONNECT_NS;
    int ret = 0, i, k;

    if (blockIdx.x >= (unsigned)nr_tb) return;
    while ((sock = gconnect_in(addr)) < 0 && gw_clock_ns() < until) {
    }
    if (sock < 0) {
        tb_alloc_tbl[blockIdx.x] = sock;
        return;
    }

    for (i = 0; i < NR_MSG; i++) {
        for (k = (int)threadIdx.x; k < BUF_SIZE; k += (int)blockDim.x) buf[k] = (uchar)(i + k % 251);
        __syncthreads();
        ret = exchange(sock, buf);
        if (ret < 0) goto out;
        __syncthreads();
        for (k = 0; k < BUF_SIZE; k++)
            if (buf[k] != (uchar)(i + k % 251)) ret = -EBADMSG;
        __syncthreads();
        if (ret < 0) goto out;
    }

    gshutdown(sock, SHUT_WR);
    if (grecv(sock, buf, 1) != 0) ret = -EBADMSG; /* more than was sent */

out:
    BEGIN_SINGLE_THREAD_PART
    tb_alloc_tbl[blockIdx.x] = ret < 0 ? ret : 0;
    single_thread_gclose(sock);
    END_SINGLE_THREAD_PART
}

GPUNET_KERNEL(client_kernel, struct gpunet_example_args, a, gpuclient, a->addr, a->tb_alloc_tbl, a->nr_tb);
