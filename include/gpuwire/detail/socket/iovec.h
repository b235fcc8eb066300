/* SPDX-License-Identifier: Apache-2.0 */
/* iovec.h: the caller's memory, and how a group copies it. Included by socket.h; names that end in _ are
 * private. */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_IOVEC_H
#define GPUWIRE_DETAIL_SOCKET_IOVEC_H

/* Gives the result of the group's first thread to all. */
#define GW_SOCK_FIRST_(g, call)                                                                              \
    ((int64_t)gw_group_first(g, gw_group_rank(g) == 0 ? (uint64_t)(int64_t)(call) : 0))

/* Stretches of memory, one after the other; and how far a call has come in them. */
struct gw_sock_vec_ {
    const struct iovec *iov;
    uint64_t left, at; /* bytes of all of them; of the first, those that are done */
};

/* 0; -EINVAL: too many, or more bytes than can be counted. */
GW_FN int gw_sock_vec_(struct gw_sock_vec_ *v, const struct iovec *iov, int n)
{
    int i;

    if (n < 0 || n > GW_SOCK_IOV_MAX || (n && !iov)) return -EINVAL;
    v->iov = iov;
    v->left = v->at = 0;
    for (i = 0; i < n; i++) {
        if (iov[i].iov_len > INT64_MAX - v->left) return -EINVAL;
        v->left += iov[i].iov_len;
    }
    return 0;
}

/* A look ahead takes a GPU some microseconds; so does a copy of this number of bytes by a block. */
enum { GW_SOCK_AHEAD_ = 131072 };

/* How many threads, from the first on, a copy of n bytes can do without: of a block its first warp. */
GW_DEV uint32_t gw_sock_spare_(enum gw_group g, uint64_t n)
{
    return g == GW_BLOCK && n >= GW_SOCK_AHEAD_ && gw_block_dim() > gw_warp_size() ? gw_warp_size() : 0;
}

/* This thread's share of copying the next n bytes of the vector from a buffer, or to it; the first `spare`
 * have none. */
GW_SLOW_DEV void gw_sock_vec_copy_(enum gw_group g, struct gw_sock_vec_ *v, uint8_t *buffer, uint64_t n,
                                   int out, uint32_t spare)
{
    uint32_t rank = gw_group_rank(g) - spare, size = gw_group_size(g) - spare, part;
    uint8_t *p;

    v->left -= n;
    while (n) {
        p = (uint8_t *)v->iov->iov_base + v->at;
        part = gw_smaller_(v->iov->iov_len - v->at, n);
        if (rank >= size)
            ; /* spare */
        else if (out)
            gw_copy_share_away(buffer, p, part, rank, size);
        else
            gw_copy_share(p, buffer, part, rank, size);
        buffer += part;
        n -= part;
        v->at += part;
        if (v->at == v->iov->iov_len) v->at = 0, v->iov++;
    }
}

#endif
