/* SPDX-License-Identifier: Apache-2.0 */
/* The single-threaded server of GPUnet's comparison, by poll(2), with BLAS on one processor:
 * app_matmul_blas [ADDRESS:PORT] */
#include <cblas.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "peer.h"

#define PEERS 4096

static struct peer peers[PEERS];
static struct pollfd fds[1 + PEERS];

static bool blas_grow(struct peer *p, size_t in, size_t out)
{
    if (p->room < in || p->out_room < out) {
        free(p->in);
        free(p->out);
        p->in = malloc(in);
        p->out = malloc(out);
        p->room = p->in ? in : 0;
        p->out_room = p->out ? out : 0;
    }
    return p->room >= in && p->out_room >= out;
}

/* binary16 as fp32: BLAS has no other. Numbers only. */
static float blas_from_half(uint16_t half)
{
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return half & 0x8000 ? -f * 0x1p112f : f * 0x1p112f;
}

static bool blas_multiply(struct peer *p)
{
    int n = (int)p->head.n;
    float *a = (float *)p->in, *both = NULL;

    if (p->head.type == MM_FP16) {
        a = both = malloc(2 * sizeof(float) * (size_t)n * (size_t)n);
        if (!both) return false;
        for (size_t i = 0; i < 2 * (size_t)n * (size_t)n; i++)
            both[i] = blas_from_half(((const uint16_t *)p->in)[i]);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, a + (size_t)n * (size_t)n, n, 0,
                (float *)p->out, n);
    free(both);
    return true;
}

static void blas_serve(struct peer *p)
{
    enum peer_got got = p->answering ? peer_write(p) : peer_read(p, blas_grow);

    while (got == PEER_REQUEST) {
        peer_answer(p, blas_multiply(p) ? MM_OK : MM_BUSY);
        got = peer_write(p);
    }
}

static void blas_accept(int listener)
{
    int fd = accept(listener, NULL, NULL), i = 0;

    while (fd >= 0 && i < PEERS && peers[i].fd > 0) i++;
    if (fd >= 0 && i < PEERS) peer_begin(&peers[i], fd);
}

int main(int argc, char **argv)
{
    int listener = peer_listen(argc > 1 ? argv[1] : "127.0.0.1:0", "matmul-blas");

    if (listener < 0) return 1;
    openblas_set_num_threads(1);
    for (;;) {
        fds[PEERS] = (struct pollfd){listener, POLLIN, 0};
        for (int i = 0; i < PEERS; i++)
            fds[i] = (struct pollfd){peers[i].fd > 0 ? peers[i].fd : -1,
                                     (short)(peers[i].answering ? POLLOUT : POLLIN), 0};
        if (poll(fds, 1 + PEERS, -1) < 0 && errno != EINTR) return 1;
        for (int i = 0; i < PEERS; i++)
            if (fds[i].revents) blas_serve(&peers[i]);
        if (fds[PEERS].revents) blas_accept(listener);
    }
}
