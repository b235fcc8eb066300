/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An echo server as one writes it for GPUnet: the first block binds, and each block accepts a connection and
 * answers it until its client has finished.
 */
#include "gpunet.h"

__device__ int answer(int sock, uchar *buf)
{
    int n, ret, sent;

    while ((n = grecv(sock, buf, BUF_SIZE)) > 0) {
        for (sent = 0; sent < n; sent += ret)
            if ((ret = gsend(sock, buf + sent, n - sent)) < 0) return ret;
    }
    return n;
}

__global__ void gpuserver(struct sockaddr_in *addr, int *tb_alloc_tbl, int nr_tb)
{
    __shared__ int sock;
    __shared__ uchar buf[BUF_SIZE];
    int *shared = &tb_alloc_tbl[nr_tb]; /* the listening socket, or why there is none */
    uint32_t round = 0;
    int listener, ret;

    BEGIN_SINGLE_THREAD_PART
    /* Acquire and release: who has the number uses the socket that the first block made before it. */
    if (blockIdx.x == 0) gw_st_release_u32_gpu(shared, (uint32_t)single_thread_gbind_in(addr));
    END_SINGLE_THREAD_PART
    while ((listener = (int)gw_ld_acquire_u32_gpu(shared)) == NOT_YET) gw_pause(round++);

    sock = listener < 0 ? listener : gaccept(listener);
    ret = sock < 0 ? sock : answer(sock, buf);

    BEGIN_SINGLE_THREAD_PART
    tb_alloc_tbl[blockIdx.x] = ret;
    if (sock >= 0) single_thread_gclose(sock);
    END_SINGLE_THREAD_PART
}

GPUNET_KERNEL(server_kernel, struct gpunet_example_args, a, gpuserver, a->addr, a->tb_alloc_tbl, a->nr_tb);
