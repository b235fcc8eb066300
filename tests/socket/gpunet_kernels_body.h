/* SPDX-License-Identifier: Apache-2.0 */
/* Included by gpunet_kernels.c for the CPU and by gpunet_kernels.cu for the GPU. */
#include "tests/socket/gpunet_kernels.h"

struct gpunet_bytes {
    uchar buf[GN_BYTES];
};

GW_KERNEL(gpunet_mark, struct gpunet_mark_args, a)
{
    if (gw_global_idx() == 0) gw_st_relaxed_u32(a->to, (uint32_t)a->value);
}

/* ---- an echo ------------------------------------------------------------------------------------------- */

/* All of it, in as many calls as that takes; 0, or what went wrong. */
GW_DEV int send_it(int sock, uchar *buf, int size)
{
    int sent = 0, ret;

    do {
        ret = gsend(sock, buf + sent, size - sent);
        if (ret < 0) return ret;
        sent += ret;
    } while (sent < size);
    return 0;
}

GW_DEV int recv_it(int sock, uchar *buf, int size)
{
    int recved = 0, ret;

    do {
        ret = grecv(sock, buf + recved, size - recved);
        if (ret <= 0) return ret ? ret : -ECONNABORTED;
        recved += ret;
    } while (recved < size);
    return 0;
}

/* The block's own bytes, message after message. */
GW_DEV int wrong(const uchar *buf, int i)
{
    int k, n = 0;

    gw_syncthreads();
    for (k = 0; k < GN_BYTES; k++) n += buf[k] != (uchar)(k * 7 + i + (int)gw_block_idx());
    gw_syncthreads();
    return n;
}

GW_DEV int client(const struct gpunet_args *a)
{
    GW_SHARED(struct gpunet_bytes, b);
    uint64_t until = gw_clock_ns() + 20000000000u;
    int sock, i, k, ret = 0;

    while ((sock = gconnect_in(&a->addr)) == -ECONNREFUSED && gw_clock_ns() < until)
        continue; /* it may not listen yet: on a busy machine for as long as thousands of refusals take */
    if (sock < 0) return sock;
    for (i = 0; i < GN_MESSAGES && !ret; i++) {
        for (k = (int)gw_thread_idx(); k < GN_BYTES; k += (int)gw_block_dim())
            b->buf[k] = (uchar)(k * 7 + i + (int)gw_block_idx());
        gw_syncthreads();
        ret = send_it(sock, b->buf, GN_BYTES);
        gw_syncthreads();
        for (k = (int)gw_thread_idx(); k < GN_BYTES; k += (int)gw_block_dim()) b->buf[k] = 0;
        gw_syncthreads();
        if (!ret) ret = recv_it(sock, b->buf, GN_BYTES);
        if (!ret && wrong(b->buf, i)) ret = -EBADMSG;
    }
    if (!ret) ret = gshutdown(sock, SHUT_WR);
    if (!ret) ret = grecv(sock, b->buf, 1);
    BEGIN_SINGLE_THREAD_PART
    single_thread_gclose(sock);
    END_SINGLE_THREAD_PART
    return ret;
}

GW_DEV int answer(int sock)
{
    GW_SHARED(struct gpunet_bytes, b);
    int n, ret = 0;

    while (!ret && (n = grecv(sock, b->buf, GN_BYTES)) != 0) ret = n < 0 ? n : send_it(sock, b->buf, n);
    n = gclose(sock);
    return ret ? ret : n;
}

GW_DEV int server(const struct gpunet_args *a)
{
    int listener = gbind_in(&a->addr), sock, ret = listener < 0 ? listener : 0;
    uint32_t i;

    for (i = 0; i < a->connections && !ret; i++) {
        sock = gaccept(listener);
        ret = sock < 0 ? sock : answer(sock);
    }
    if (listener >= 0) (void)gclose(listener);
    return ret;
}

/* ---- call by call -------------------------------------------------------------------------------------- */

GW_DEV void note(const struct gpunet_args *a, int i, int value)
{
    if (gw_thread_idx() == 0) a->result[i] = value;
}

struct gpunet_poll {
    struct gpollfd fd[2];
    uchar buf[64];
};

/* The calls on a pair of connected sockets, c and s. */
GW_DEV void pair_calls(const struct gpunet_args *a, int c, int s)
{
    GW_SHARED(struct gpunet_poll, p);
    int n;

    note(a, 6, ggetsock_block(s));
    gsetsock_block(s, 0);
    note(a, 7, ggetsock_block(s));
    note(a, 8, grecv(s, p->buf, 64));
    note(a, 9, gaio_poll(gaio(s, GAIO_RECEIVE, p->buf, 64), s, GAIO_RECEIVE, p->buf, 64));
    BEGIN_SINGLE_THREAD_PART
    p->fd[0].fd = s;
    p->fd[0].events = POLLIN;
    p->fd[1].fd = -1;
    p->fd[1].events = POLLIN;
    END_SINGLE_THREAD_PART
    note(a, 10, gpoll(p->fd, 2, 1000000));
    note(a, 11, gsendto(c, "forty bytes of text that a peer receives", 40, NULL, 0));
    n = gpoll(p->fd, 2, 0);
    note(a, 12, n == 1 && p->fd[0].revents == POLLIN && p->fd[1].revents == 0 ? (int)p->fd[0].rbytes : -1);
    gw_syncthreads();
    BEGIN_SINGLE_THREAD_PART
    p->fd[0].events = POLLOUT;
    END_SINGLE_THREAD_PART
    n = gpoll(p->fd, 1, 0);
    note(a, 13, n == 1 && p->fd[0].wbytes > 64);
    note(a, 14, grecvfrom(s, p->buf, 10, NULL, NULL));
    note(a, 15, gaio_poll(gaio(s, GAIO_RECEIVE, p->buf, 10), s, GAIO_RECEIVE, p->buf, 10));
    note(a, 16, grecv_nb(s, p->buf, 64));
    note(a, 17, p->buf[19]);
    note(a, 18, gsend(c, p->buf, -1));
    note(a, 19, gshutdown(c, SHUT_WR));
    gsetsock_block(s, 1);
    note(a, 20, grecv(s, p->buf, 64));
}

/* A UNIX socket that one connects to and is told something. */
GW_DEV void unix_calls(const struct gpunet_args *a)
{
    GW_SHARED(struct gpunet_poll, p);
    int l = gbind(a->name, a->n), c, s;

    note(a, 3, l < 0 ? l : 0);
    if (l < 0) return;
    c = gconnect(a->name, a->n);
    s = gaccept(l);
    note(a, 29, gsend(c, "by name", 7));
    note(a, 30, grecv(s, p->buf, 64));
    (void)gclose(c);
    (void)gclose(s);
    (void)gclose(l);
}

GW_DEV void calls(const struct gpunet_args *a)
{
    GW_SHARED(struct gpunet_mark_args, mark);
    int l, c, s, one[3] = {1, 1, 1}, none[3] = {1, 0, 1};

    note(a, 0, l = gbind_in(&a->addr));
    note(a, 1, gaccept_nb(l));
    note(a, 2, gaio_poll(gaio(l, GAIO_ACCEPT, NULL, 0), l, GAIO_ACCEPT, NULL, 0));
    unix_calls(a);
    note(a, 4, c = gconnect_in(&a->addr));
    note(a, 5, s = gaccept(l));
    pair_calls(a, c, s);
    note(a, 21, gclose(c));
    note(a, 22, gclose(s));
    note(a, 23, gclose(l));
    note(a, 24, gclose(l));
    BEGIN_SINGLE_THREAD_PART
    mark->to = a->result + 31;
    mark->value = 77;
    END_SINGLE_THREAD_PART
    note(a, 25, gsynclaunch("gpunet_mark", one, one, mark));
    note(a, 26, (int)gw_ld_relaxed_u32(a->result + 31));
    note(a, 27, gsynclaunch("nobody", one, one, mark));
    note(a, 28, gasynclaunch("gpunet_mark", one, none, mark));
}

GW_DEV void print(void)
{
    struct gtimeval from = {10, 999999}, to = {12, 1}, d, now;

    gtimersub(&to, &from, &d);
    ggettimeofday(&now);
    gputs("written\nand so on", 8);
    if (gw_thread_idx()) return;
    gprintf4_single("%d %d %d %d\n", (int)d.tv_sec, (int)d.tv_usec, now.tv_sec > 1700000000, -4);
}

GW_KERNEL(gpunet_kernel, struct gpunet_args, a)
{
    uint32_t role = a->role == GN_BOTH ? (gw_block_idx() ? GN_CLIENT : GN_SERVER) : a->role;

    gpunet_use(a->gpunet);
    if (role == GN_CALLS) {
        calls(a);
        print();
    } else {
        int err = role == GN_CLIENT ? client(a) : server(a);

        if (gw_thread_idx() == 0) a->result[GN_RESULTS * gw_block_idx()] = err;
    }
}
