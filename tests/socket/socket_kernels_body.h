/* SPDX-License-Identifier: Apache-2.0 */
/* Included by socket_kernels.c for the CPU and by socket_kernels.cu for the GPU. */
#include "tests/socket/meet.h"
#include "tests/socket/socket_kernels.h"

GW_FN uint8_t stream_byte(uint64_t seed, uint64_t at)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + at * 0xd1b54a32d192ed03u;

    return (uint8_t)(x >> 40 ^ x >> 17);
}

GW_DEV void fill(enum gw_group g, uint8_t *to, uint64_t n, uint64_t seed, uint64_t at)
{
    uint64_t i;

    for (i = gw_group_rank(g); i < n; i += gw_group_size(g)) to[i] = stream_byte(seed, at + i);
    gw_group_sync(g);
}

/* By the first thread: what all have copied must be visible to it. */
GW_DEV int right(enum gw_group g, const uint8_t *from, uint64_t n, uint64_t seed, uint64_t at)
{
    uint64_t i, wrong = 0;

    gw_group_sync(g);
    if (gw_group_rank(g) == 0)
        for (i = 0; i < n; i++) wrong += from[i] != stream_byte(seed, at + i);
    return gw_group_first(g, wrong) == 0;
}

GW_DEV int64_t send_all(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p,
                        uint8_t *buffer)
{
    uint64_t done = 0, n;
    int64_t got;

    while (done < p->n) {
        n = p->n - done < (uint32_t)p->number ? p->n - done : (uint32_t)p->number;
        fill(g, buffer, n, p->seed, p->at + done);
        got = SK_FORM(g, send, net, s, buffer, n, p->flags, limit(p->limit_ns));
        gw_group_sync(g);
        if (got < 0) return got;
        done += (uint64_t)got;
    }
    return (int64_t)done;
}

GW_DEV int64_t recv_all(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p,
                        uint8_t *buffer)
{
    uint64_t done = 0, n;
    int64_t got;

    while (done < p->n) {
        n = p->n - done < (uint32_t)p->number ? p->n - done : (uint32_t)p->number;
        got = SK_FORM(g, recv, net, s, buffer, n, p->flags, limit(p->limit_ns));
        if (got < 0) return got;
        if (got == 0) break;
        if (!right(g, buffer, (uint64_t)got, p->seed, p->at + done)) return SK_WRONG;
        done += (uint64_t)got;
    }
    return (int64_t)done;
}

GW_DEV int64_t send_in_place(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p)
{
    uint64_t done = 0, n;
    int64_t got, err;
    void *room;

    for (; done < p->n; done += n) {
        got = SK_FORM(g, reserve, net, s, &room, limit(p->limit_ns));
        if (got <= 0) return got ? got : SK_WRONG;
        n = p->n - done < (uint32_t)p->number ? p->n - done : (uint32_t)p->number;
        if (n > (uint64_t)got) n = (uint64_t)got;
        fill(g, (uint8_t *)room, n, p->seed, p->at + done);
        err = SK_FORM(g, commit, net, s, n, limit(p->limit_ns));
        if (err) return err;
    }
    return (int64_t)done;
}

GW_DEV int64_t recv_in_place(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p)
{
    uint64_t done = 0, n;
    int64_t got, err;
    const void *there;

    for (; done < p->n; done += n) {
        got = SK_FORM(g, borrow, net, s, &there, limit(p->limit_ns));
        if (got < 0) return got;
        if (got == 0) break;
        n = (uint64_t)got < (uint32_t)p->number ? (uint64_t)got : (uint32_t)p->number;
        err = right(g, (const uint8_t *)there, n, p->seed, p->at + done) ? 0 : SK_WRONG;
        got = SK_FORM(g, give_back, net, s, n);
        if (err || got) return err ? err : got;
    }
    return (int64_t)done;
}

GW_DEV int64_t one(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p, uint8_t *buffer)
{
    int64_t got;

    if (p->op == SK_SEND_ONE) {
        fill(g, buffer, p->n, p->seed, p->at);
        return SK_FORM(g, send, net, s, buffer, p->n, p->flags, limit(p->limit_ns));
    }
    got = SK_FORM(g, recv, net, s, buffer, p->n, p->flags, limit(p->limit_ns));
    return got > 0 && !right(g, buffer, (uint64_t)got, p->seed, p->at) ? SK_WRONG : got;
}

GW_DEV int64_t borrow_one(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p)
{
    const void *bytes;
    int64_t got = SK_FORM(g, borrow, net, s, &bytes, limit(p->limit_ns)), err;

    if (got <= 0) return got;
    if (!right(g, (const uint8_t *)bytes, (uint64_t)got, p->seed, p->at)) got = SK_WRONG;
    err = SK_FORM(g, give_back, net, s, p->n);
    return err ? err : got;
}

/* n bytes of the buffer in stretches, each longer than the one before, with empty ones between them. */
GW_DEV int stretches(enum gw_group g, struct iovec *iov, uint8_t *buffer, uint64_t n, int parts)
{
    uint64_t at = 0, len;
    int i;

    for (i = 0; i < parts && gw_group_rank(g) == 0; i++) {
        len = i % 2 ? 0 : (uint64_t)i * 7 + 1;
        if (len > n - at || i == parts - 1) len = n - at;
        iov[i].iov_base = buffer + at;
        iov[i].iov_len = len;
        at += len;
    }
    gw_group_sync(g);
    return parts;
}

GW_DEV int64_t one_vector(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p,
                          uint8_t *buffer)
{
    struct iovec *iov = (struct iovec *)(buffer + SK_BUFFER - 64 * sizeof(struct iovec));
    int parts = stretches(g, iov, buffer, p->n, p->number);
    int64_t got;

    if (p->op == SK_WRITEV) {
        fill(g, buffer, p->n, p->seed, p->at);
        return SK_FORM(g, writev, net, s, iov, parts, limit(p->limit_ns));
    }
    got = SK_FORM(g, readv, net, s, iov, parts, limit(p->limit_ns));
    return got > 0 && !right(g, buffer, (uint64_t)got, p->seed, p->at) ? SK_WRONG : got;
}

GW_DEV int64_t reserve_one(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p)
{
    void *bytes;
    int64_t got = SK_FORM(g, reserve, net, s, &bytes, limit(p->limit_ns)), err;

    if (got <= 0) return got;
    if (p->n <= (uint64_t)got) fill(g, (uint8_t *)bytes, p->n, p->seed, p->at);
    err = SK_FORM(g, commit, net, s, p->n, limit(p->limit_ns));
    return err ? err : got;
}

GW_DEV int64_t option(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p,
                      uint8_t *buffer)
{
    struct timeval *time = (struct timeval *)buffer; /* the group's */
    int *value = (int *)buffer, timed = p->number == SO_RCVTIMEO || p->number == SO_SNDTIMEO;
    socklen_t *len = (socklen_t *)(time + 1);
    int64_t err;

    if (gw_group_rank(g) == 0) {
        *len = timed ? sizeof(*time) : p->number == SO_LINGER ? sizeof(struct linger) : sizeof(int);
        time->tv_sec = (long)(p->n / 1000000);
        time->tv_usec = (long)(p->n % 1000000);
        if (!timed) value[0] = p->number == SO_LINGER ? 1 : (int)p->n;
        if (!timed) value[1] = (int)p->n;
    }
    gw_group_sync(g);
    if (p->op == SK_SETOPT) return SK_FORM(g, setsockopt, net, s, p->flags, p->number, value, *len);
    err = SK_FORM(g, getsockopt, net, s, p->flags, p->number, value, len);
    if (!err && timed)
        err = time->tv_sec * 1000000 + time->tv_usec;
    else if (!err)
        err = value[p->number == SO_LINGER];
    gw_group_sync(g);
    return err;
}

GW_DEV int64_t poll_one(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p,
                        uint8_t *buffer)
{
    struct pollfd *fds = (struct pollfd *)buffer; /* the group's */
    int n;

    if (gw_group_rank(g) == 0) {
        fds[0].fd = -1;
        fds[1].fd = s;
        fds[0].events = fds[1].events = (short)p->number;
    }
    gw_group_sync(g);
    n = SK_FORM(g, poll, net, fds, 2, limit(p->limit_ns));
    n = n == 1 && fds[0].revents == 0 ? fds[1].revents : n == 0 ? -1 : SK_WRONG;
    gw_group_sync(g);
    return n;
}

GW_DEV int64_t port_of(struct gw_net *net, enum gw_group g, int s, const struct socket_step *p,
                       uint8_t *buffer)
{
    struct sockaddr_in *sa = (struct sockaddr_in *)buffer; /* the group's */
    socklen_t *len = (socklen_t *)(sa + 4);
    int64_t err;

    if (gw_group_rank(g) == 0) *len = sizeof(*sa);
    gw_group_sync(g);
    err = p->number ? SK_FORM(g, peer, net, s, (struct sockaddr *)sa, len)
                    : SK_FORM(g, name, net, s, (struct sockaddr *)sa, len);
    if (!err) err = sa->sin_family == AF_INET && *len == sizeof(*sa) ? gw_be16(sa->sin_port) : SK_WRONG;
    gw_group_sync(g);
    return err;
}

GW_DEV int64_t socket_call(const struct socket_args *a, const struct socket_step *p, uint8_t *buffer)
{
    enum gw_group g = (enum gw_group)p->form;
    int s = p->s < SK_SOCKETS ? a->sock[p->s] : (int)p->s, got;
    const struct sockaddr *to = (const struct sockaddr *)&p->addr;
    uint64_t until = limit(p->limit_ns);

    switch (p->op) {
    case SK_OPEN:
        got = SK_FORM(g, open, a->net, p->number, p->flags, 0, until);
        if (got >= 0 && gw_group_rank(g) == 0) a->sock[p->s] = got;
        return got < 0 ? got : 0;
    case SK_BIND: return SK_FORM(g, bind, a->net, s, to, sizeof(p->addr), until);
    case SK_LISTEN: return SK_FORM(g, listen, a->net, s, p->number, until);
    case SK_ACCEPT:
        got = SK_FORM(g, accept, a->net, s, NULL, NULL, until);
        if (got >= 0 && gw_group_rank(g) == 0) a->sock[p->number] = got;
        return got < 0 ? got : 0;
    case SK_CONNECT: return SK_FORM(g, connect, a->net, s, to, sizeof(p->addr), until);
    case SK_SEND: return send_all(a->net, g, s, p, buffer);
    case SK_RECV: return recv_all(a->net, g, s, p, buffer);
    case SK_SEND_IN_PLACE: return send_in_place(a->net, g, s, p);
    case SK_RECV_IN_PLACE: return recv_in_place(a->net, g, s, p);
    case SK_SEND_ONE:
    case SK_RECV_ONE: return one(a->net, g, s, p, buffer);
    case SK_BORROW: return borrow_one(a->net, g, s, p);
    case SK_WRITEV:
    case SK_READV: return one_vector(a->net, g, s, p, buffer);
    case SK_IOMAP: return SK_FORM(g, iomap, a->net, s, p->seed, (uint32_t)p->flags, p->n, p->at, until);
    case SK_IOUNMAP: return SK_FORM(g, iounmap, a->net, s, p->seed, p->n, until);
    case SK_IOWRITE:
        fill(g, buffer, p->n, p->seed, p->at);
        return SK_FORM(g, iowrite, a->net, s, buffer, p->n, p->at, p->flags, until);
    case SK_RESERVE: return reserve_one(a->net, g, s, p);
    case SK_SETOPT:
    case SK_GETOPT: return option(a->net, g, s, p, buffer);
    case SK_SHUTDOWN: return SK_FORM(g, shutdown, a->net, s, p->number, until);
    case SK_CLOSE: return SK_FORM(g, close, a->net, s, until);
    case SK_POLL: return poll_one(a->net, g, s, p, buffer);
    default: return port_of(a->net, g, s, p, buffer);
    }
}

GW_KERNEL(socket_kernel, struct socket_args, a)
{
    const struct socket_script *script = &a->script[gw_block_idx()];
    uint8_t *buffer = a->buffer + (size_t)SK_BUFFER * gw_block_idx();
    uint32_t i, out;
    int64_t got;

    for (i = 0; i < script->steps; i++) {
        out = script->step[i].form == GW_THREAD ? gw_thread_idx()
              : script->step[i].form == GW_WARP ? gw_warp_idx()
                                                : 0;
        if (!out) {
            got = socket_call(a, &script->step[i], buffer);
            if (gw_thread_idx() == 0) a->result[gw_block_idx() * SK_STEPS + i] = got;
        }
        gw_syncthreads();
    }
}

/* ---- rstream ------------------------------------------------------------------------------------------- */

/* `size` bytes in one direction, of which byte i of the whole stream is i mod 256, as rstream checks and lets
 * check with -T v. */
GW_DEV int64_t move(const struct rstream_args *a, int s, int sending, uint64_t at, uint32_t size)
{
    enum gw_group g = (enum gw_group)a->form;
    uint32_t done = 0, i, wrong = 0;
    int64_t got;

    for (i = gw_group_rank(g); sending && i < size; i += gw_group_size(g)) a->buffer[i] = (uint8_t)(at + i);
    gw_group_sync(g);
    while (done < size) {
        got = sending ? SK_FORM(g, send, a->net, s, a->buffer + done, size - done, 0, limit(a->limit_ns))
                      : SK_FORM(g, recv, a->net, s, a->buffer + done, size - done, 0, limit(a->limit_ns));
        if (got < 0) return got;
        if (got == 0) return -ECONNABORTED;
        done += (uint32_t)got;
    }
    gw_group_sync(g);
    if (gw_group_rank(g) == 0)
        for (i = 0; i < size; i++) wrong += a->buffer[i] != (uint8_t)(at + i);
    return gw_group_first(g, wrong) ? -EILSEQ : 0;
}

GW_DEV int64_t talk(const struct rstream_args *a, int s)
{
    uint64_t out = 16, in = 16;
    int64_t err = move(a, s, !a->server, 0, 16);
    uint32_t i, t;

    if (!err) err = move(a, s, a->server, 0, 16);
    for (i = 0; i < a->iterations && !err; i++) {
        for (t = 0; t < a->count && !err; t++, out += a->size) err = move(a, s, !a->server, out, a->size);
        for (t = 0; t < a->count && !err; t++, in += a->size) err = move(a, s, a->server, in, a->size);
    }
    return err;
}

/* Waits for the peer to close: rstream takes an end that comes together with the last bytes for a failure. */
GW_DEV int64_t wait_for_end(const struct rstream_args *a, int s)
{
    int64_t got = SK_FORM((enum gw_group)a->form, recv, a->net, s, a->buffer, 1, 0, limit(a->limit_ns));

    return got > 0 ? -EILSEQ : got;
}

GW_KERNEL(rstream_kernel, struct rstream_args, a)
{
    int64_t err;
    int s = -1;

    if (a->form == GW_THREAD && gw_thread_idx()) return;
    if (a->form == GW_WARP && gw_warp_idx()) return;
    err = meet(a->net, (enum gw_group)a->form, &a->addr, (int)a->server, a->limit_ns, &s);
    if (!err) err = talk(a, s);
    if (!err) err = wait_for_end(a, s);
    if (s >= 0 && SK_FORM((enum gw_group)a->form, close, a->net, s, limit(a->limit_ns)) && !err) err = -EIO;
    if (gw_thread_idx() == 0) *a->result = err;
}
