/* SPDX-License-Identifier: Apache-2.0 */
/* Included by datagram_kernels.c for the CPU and by datagram_kernels.cu for the GPU. */
#include "tests/socket/datagram_kernels.h"

#define DATAGRAM_ANSWER_NS 200000000u /* after which an answer is believed to be lost */
#define DATAGRAM_REPEATS   100000u

struct datagram_words {
    uint8_t out[MAX_DATAGRAM], in[MAX_DATAGRAM];
};

GW_DEV void datagram_keep(const struct datagram_args *a, int s, int64_t err, uint32_t done, uint32_t repeats)
{
    struct datagram_out *o = &a->out[gw_block_idx()];

    if (gw_thread_idx()) return;
    o->err = err;
    o->done = done;
    o->repeats = repeats;
    if (s < 0 || !a->net->datagrams) return;
    o->posted = (uint32_t)gw_datagram_(a->net, s)->put;
    o->dropped = gw_datagram_(a->net, s)->dropped;
}

/* Sends back every datagram, until an end that is not asked for again, or until nothing has come for long.
 * udpong may take an answer for that to another question. It then forgets to say the end. */
GW_DEV void datagram_serve(const struct datagram_args *a, enum gw_group g)
{
    GW_SHARED(struct datagram_words, w);
    uint64_t wait = a->limit_ns;
    struct sockaddr_in from;
    socklen_t len;
    uint32_t done = 0;
    int64_t n = 0, sent;
    int s = SK_FORM(g, open, a->net, AF_INET, SOCK_DGRAM, 0, 0);
    int err = s < 0 ? s : SK_FORM(g, bind, a->net, s, (const struct sockaddr *)&a->addr, sizeof(a->addr), 0);

    while (!err) {
        len = sizeof(from);
        n = SK_FORM(g, recvfrom, a->net, s, w->in, sizeof(w->in), 0, (struct sockaddr *)&from, &len,
                    limit(wait));
        if (n < 0) err = n == -ETIMEDOUT && wait != a->limit_ns ? 1 : (int)n;
        if (err) break;
        /* The group's first thread alone knows who sent it; the others' pointers are not looked at. */
        sent = SK_FORM(g, sendto, a->net, s, w->in, (uint64_t)n, 0, (const struct sockaddr *)&from,
                       sizeof(from), limit(a->limit_ns));
        if (sent != n) err = sent < 0 ? (int)sent : -EIO;
        done++;
        wait = w->in[0] == DATAGRAM_OP_END ? 2 * DATAGRAM_ANSWER_NS : a->silence_ns;
        gw_group_sync(g);
    }
    datagram_keep(a, s, err == 1 ? 0 : err, done, 0);
    if (s >= 0) SK_FORM(g, close, a->net, s, limit(a->limit_ns));
}

GW_DEV int datagram_same(const struct datagram_words *w, uint32_t n)
{
    uint32_t i, differ = 0;

    for (i = 0; i < n; i++) differ |= w->in[i] ^ w->out[i];
    return !differ;
}

/* One question, until it is answered: 0, or a negative errno. By UDP it may be refused until the server is
 * there. */
GW_DEV int datagram_question(const struct datagram_args *a, enum gw_group g, int s, struct datagram_words *w,
                             uint32_t n, uint32_t *repeats)
{
    const struct sockaddr *to = a->connect ? NULL : (const struct sockaddr *)&a->addr;
    uint64_t end = gw_clock_ns() + a->limit_ns;
    int64_t got = SK_FORM(g, sendto, a->net, s, w->out, n, 0, to, to ? sizeof(a->addr) : 0, end);

    while ((got >= 0 || got == -ECONNREFUSED) && *repeats < DATAGRAM_REPEATS) {
        got = SK_FORM(g, recv, a->net, s, w->in, sizeof(w->in), 0, limit(DATAGRAM_ANSWER_NS));
        if (got == n && w->in[2] == w->out[2] && w->in[0] == w->out[0])
            return w->out[0] == DATAGRAM_OP_END || datagram_same(w, n) ? 0 : -EBADMSG;
        if (got >= 0) continue; /* an answer that had been given up */
        if (got != -ETIMEDOUT && got != -ECONNREFUSED) break;
        got = SK_FORM(g, sendto, a->net, s, w->out, n, 0, to, to ? sizeof(a->addr) : 0, end);
        ++*repeats;
    }
    return got < 0 ? (int)got : -ETIMEDOUT;
}

GW_DEV void datagram_ask(const struct datagram_args *a, enum gw_group g)
{
    GW_SHARED(struct datagram_words, w);
    uint32_t i, k, n, repeats = 0;
    int s = SK_FORM(g, open, a->net, AF_INET, SOCK_DGRAM, 0, 0), err = s < 0 ? s : 0;

    if (!err && a->connect)
        err = SK_FORM(g, connect, a->net, s, (const struct sockaddr *)&a->addr, sizeof(a->addr), 0);
    for (i = 0; !err && i <= a->count; i++) {
        n = i == a->count ? DATAGRAM_CONTROL
                          : DATAGRAM_CONTROL + i * 37 % (MAX_DATAGRAM - DATAGRAM_CONTROL + 1);
        for (k = 4 + gw_group_rank(g); k < n; k += gw_group_size(g)) w->out[k] = (uint8_t)(k * 7 + i);
        if (gw_group_rank(g) == 0) {
            w->out[0] = i == a->count ? DATAGRAM_OP_END : DATAGRAM_OP_ECHO;
            w->out[1] = w->out[3] = 0;
            w->out[2] = (uint8_t)i;
        }
        gw_group_sync(g);
        err = datagram_question(a, g, s, w, n, &repeats);
        gw_group_sync(g);
    }
    datagram_keep(a, s, err, i, repeats);
    if (s >= 0) SK_FORM(g, close, a->net, s, limit(a->limit_ns));
}

GW_KERNEL(datagram_kernel, struct datagram_args, a)
{
    enum gw_group g = (enum gw_group)a->form;
    uint32_t role = a->roles >> 4 * gw_block_idx() & 0xf;

    if ((g == GW_WARP && gw_warp_idx()) || (g == GW_THREAD && gw_thread_idx())) return;
    if (role == 1)
        datagram_serve(a, g);
    else
        datagram_ask(a, g);
}
