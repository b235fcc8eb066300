/* SPDX-License-Identifier: Apache-2.0 */
/* Included by serve_kernels.c for the CPU and by serve_kernels.cu for the GPU. */
#include "tests/socket/serve_kernels.h"

GW_FN uint32_t text_len(const char *s)
{
    uint32_t n = 0;

    while (s[n]) n++;
    return n;
}

GW_FN int same_bytes(const char *a, const char *b, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        if (a[i] != b[i]) return 0;
    return 1;
}

/* Is it this word, in capitals or not? */
GW_FN int is_word(const char *a, uint32_t n, const char *word)
{
    uint32_t i;

    for (i = 0; i < n && word[i]; i++)
        if ((a[i] & ~32) != word[i]) return 0;
    return i == n && !word[i];
}

/* Where `what` is within n bytes; -1: nowhere. */
GW_FN int32_t find_text(const char *in, uint32_t n, const char *what)
{
    uint32_t len = text_len(what), i;

    for (i = 0; i + len <= n; i++)
        if (same_bytes(in + i, what, len)) return (int32_t)i;
    return -1;
}

GW_DEV int say_bytes(const struct serve_args *a, int s, const char *bytes, uint32_t n)
{
    return gw_sock_send_thread(a->net, s, bytes, n, 0, gw_clock_ns() + a->limit_ns) == n ? 0 : -EPIPE;
}

GW_DEV int say_text(const struct serve_args *a, int s, const char *text)
{
    return say_bytes(a, s, text, text_len(text));
}

/* Each of these takes the first request of n bytes: how many bytes it has; 0: it has not all come; or an
 * error. */

/* ---- HTTP ---------------------------------------------------------------------------------------------- */

GW_DEV int32_t answer_http(const struct serve_args *a, int s, const char *in, uint32_t n)
{
    int32_t end = find_text(in, n, "\r\n\r\n");
    uint32_t len = (uint32_t)end + 4;
    int old, keep;

    if (end < 0) return 0;
    old = find_text(in, len, "HTTP/1.0") >= 0;
    keep = old ? find_text(in, len, "Keep-Alive") >= 0 : find_text(in, len, "Connection: close") < 0;
    if (say_text(a, s, old ? "HTTP/1.0 200 OK\r\n" : "HTTP/1.1 200 OK\r\n") ||
        say_text(a, s, keep ? "Connection: Keep-Alive\r\n" : "Connection: close\r\n") ||
        say_text(a, s, "Content-Length: 14\r\n\r\nfrom a kernel\n"))
        return -EPIPE;
    return keep ? (int32_t)len : -ECONNABORTED; /* closed, and that is well */
}

/* ---- redis --------------------------------------------------------------------------------------------- */

/* A number after `mark`, and where the next line begins. 0: it has not all come. */
GW_DEV int number_line(const char *in, uint32_t n, uint32_t *at, char mark, uint32_t *number)
{
    uint32_t i = *at;

    if (i >= n) return 0;
    if (in[i++] != mark) return -EPROTO;
    for (*number = 0; i < n && in[i] >= '0' && in[i] <= '9'; i++) {
        *number = *number * 10 + (uint32_t)(in[i] - '0');
        if (*number > SERVE_BYTES) return -EPROTO;
    }
    if (i + 2 > n) return 0;
    *at = i + 2;
    return 1;
}

GW_DEV struct serve_key *find_key(struct serve_block *b, const char *key, uint32_t len)
{
    uint32_t i;

    for (i = 0; i < b->keys && i < SERVE_KEYS; i++)
        if (b->table[i].key_len == len && same_bytes(b->table[i].key, key, len)) return &b->table[i];
    return NULL;
}

GW_DEV int redis_set(const struct serve_args *a, struct serve_block *b, int s, const char *const *arg,
                     const uint32_t *len)
{
    struct serve_key *k = find_key(b, arg[1], len[1]);

    if (len[1] > sizeof(k->key) || len[2] > sizeof(k->value) || (!k && b->keys == SERVE_KEYS))
        return say_text(a, s, "-ERR no room\r\n");
    if (!k) k = &b->table[b->keys++];
    k->key_len = len[1];
    k->value_len = len[2];
    memcpy(k->key, arg[1], len[1]);
    memcpy(k->value, arg[2], len[2]);
    return say_text(a, s, "+OK\r\n");
}

GW_DEV int redis_get(const struct serve_args *a, struct serve_block *b, int s, const char *key, uint32_t len)
{
    const struct serve_key *k = find_key(b, key, len);
    char head[16], digits[10];
    uint32_t n = 0, d = 0, v;

    if (!k) return say_text(a, s, "$-1\r\n");
    head[n++] = '$';
    for (v = k->value_len; v || !d; v /= 10) digits[d++] = (char)('0' + v % 10);
    while (d) head[n++] = digits[--d];
    head[n++] = '\r';
    head[n++] = '\n';
    return say_bytes(a, s, head, n) || say_bytes(a, s, k->value, k->value_len) || say_text(a, s, "\r\n")
               ? -EPIPE
               : 0;
}

GW_DEV int32_t answer_redis(const struct serve_args *a, struct serve_block *b, int s, const char *in,
                            uint32_t n)
{
    const char *arg[8];
    uint32_t len[8], at = 0, args, i;
    int err = number_line(in, n, &at, '*', &args);

    if (err <= 0) return err;
    if (!args || args > 8) return -EPROTO;
    for (i = 0; i < args; i++) {
        err = number_line(in, n, &at, '$', &len[i]);
        if (err <= 0) return err;
        if (at + len[i] + 2 > n) return 0;
        arg[i] = in + at;
        at += len[i] + 2;
    }
    if (args == 1 && is_word(arg[0], len[0], "PING"))
        err = say_text(a, s, "+PONG\r\n");
    else if (args == 3 && is_word(arg[0], len[0], "SET"))
        err = redis_set(a, b, s, arg, len);
    else if (args == 2 && is_word(arg[0], len[0], "GET"))
        err = redis_get(a, b, s, arg[1], len[1]);
    else
        err = say_text(a, s, "-ERR unknown command\r\n");
    return err ? err : (int32_t)at;
}

/* ---- memcached ----------------------------------------------------------------------------------------- */

/* The next word of a line that ends before `end`: how long it is; 0: there is none. */
GW_DEV uint32_t next_word(const char *in, uint32_t end, uint32_t *at)
{
    uint32_t from;

    while (*at < end && in[*at] == ' ') ++*at;
    for (from = *at; *at < end && in[*at] != ' '; ++*at) continue;
    return *at - from;
}

/* What is kept of keys that are too many is of the last ones. */
GW_DEV struct serve_key *keep_key(struct serve_block *b, const char *key, uint32_t len)
{
    struct serve_key *k = find_key(b, key, len);

    if (!k) k = &b->table[b->keys++ % SERVE_KEYS];
    k->key_len = len;
    memcpy(k->key, key, len);
    return k;
}

GW_DEV int memcached_get(const struct serve_args *a, const struct serve_key *k, int s)
{
    char digits[] = " 0 0000\r\n";
    uint32_t i, v = k->value_len;

    for (i = 6; i > 2; i--, v /= 10) digits[i] = (char)('0' + v % 10);
    return say_text(a, s, "VALUE ") || say_bytes(a, s, k->key, k->key_len) || say_text(a, s, digits) ||
                   say_bytes(a, s, k->value, k->value_len) || say_text(a, s, "\r\n")
               ? -EPIPE
               : 0;
}

/* set KEY FLAGS TIME BYTES, and the bytes. FLAGS are not kept, and no key is forgotten at a TIME. */
GW_DEV int32_t memcached_set(const struct serve_args *a, struct serve_block *b, int s, const char *in,
                             uint32_t n, uint32_t line, uint32_t at)
{
    uint32_t key, key_len, word, value = 0;
    struct serve_key *k;

    key_len = next_word(in, line, &at);
    key = at - key_len;
    (void)next_word(in, line, &at);
    (void)next_word(in, line, &at);
    for (word = next_word(in, line, &at); word; word--) {
        if (in[at - word] < '0' || in[at - word] > '9' || value > SERVE_BYTES) return -EPROTO;
        value = value * 10 + (uint32_t)(in[at - word] - '0');
    }
    if (!key_len || key_len > sizeof(k->key) || value > sizeof(k->value)) return -EPROTO;
    if (line + 4 + value > n) return 0;
    k = keep_key(b, in + key, key_len);
    k->value_len = value;
    memcpy(k->value, in + line + 2, value);
    return say_text(a, s, "STORED\r\n") ? -EPIPE : (int32_t)(line + 4 + value);
}

GW_DEV int32_t answer_memcached(const struct serve_args *a, struct serve_block *b, int s, const char *in,
                                uint32_t n)
{
    int32_t line = find_text(in, n, "\r\n");
    const struct serve_key *k;
    uint32_t at = 0, len;
    int err = 0;

    if (line < 0) return 0;
    len = next_word(in, (uint32_t)line, &at);
    if (is_word(in, len, "SET")) return memcached_set(a, b, s, in, n, (uint32_t)line, at);
    if (!is_word(in, len, "GET")) return say_text(a, s, "ERROR\r\n") ? -EPIPE : line + 2;
    while (!err && (len = next_word(in, (uint32_t)line, &at)) != 0) {
        k = find_key(b, in + at - len, len);
        if (k) err = memcached_get(a, k, s);
    }
    return err || say_text(a, s, "END\r\n") ? -EPIPE : line + 2;
}

/* ---- a server ------------------------------------------------------------------------------------------ */

GW_DEV int32_t answer_one(const struct serve_args *a, struct serve_block *b, struct serve_conn *c, uint32_t n)
{
    const char *in = c->bytes + (c->have - n);

    if (!n) return 0;
    if (a->what == SERVE_HTTP) return answer_http(a, c->s, in, n);
    if (a->what == SERVE_REDIS) return answer_redis(a, b, c->s, in, n);
    if (a->what == SERVE_MEMCACHED) return answer_memcached(a, b, c->s, in, n);
    return say_bytes(a, c->s, in, n) ? -EPIPE : (int32_t)n;
}

/* Receives on one connection. -1: it is over. */
GW_DEV int serve_conn(const struct serve_args *a, struct serve_block *b, struct serve_conn *c,
                      int64_t *answered)
{
    int64_t got =
        gw_sock_recv_thread(a->net, c->s, c->bytes + c->have, SERVE_BYTES - c->have, MSG_DONTWAIT, 0);
    uint32_t left, i;
    int32_t used;

    if (got == -EAGAIN) return 0;
    if (got <= 0) return -1;
    c->have += (uint32_t)got;
    for (left = c->have; (used = answer_one(a, b, c, left)) > 0; left -= (uint32_t)used) ++*answered;
    if (used == -ECONNABORTED) ++*answered;
    if (used < 0 || (left == SERVE_BYTES && !used)) return -1;
    for (i = 0; i < left; i++) c->bytes[i] = c->bytes[i + (c->have - left)];
    c->have = left;
    return 0;
}

GW_DEV void accept_one(const struct serve_args *a, struct serve_block *b, int l)
{
    uint32_t i;

    for (i = 0; i < SERVE_CONNS && b->conn[i].s >= 0; i++) continue;
    if (i == SERVE_CONNS) return;
    b->conn[i].have = 0;
    b->conn[i].s = gw_sock_accept_thread(a->net, l, NULL, NULL, 0); /* another block may have been first */
}

GW_DEV int serve_round(const struct serve_args *a, struct serve_block *b, int l, int64_t *answered)
{
    uint32_t i, free_ones = 0;
    int n;

    for (i = 0; i < SERVE_CONNS; i++) {
        b->poll[i].fd = b->conn[i].s;
        b->poll[i].events = POLLIN;
        free_ones += b->conn[i].s < 0;
    }
    b->poll[SERVE_CONNS].fd = free_ones ? l : -1;
    b->poll[SERVE_CONNS].events = POLLIN;
    n = gw_sock_poll_thread(a->net, b->poll, SERVE_CONNS + 1, gw_clock_ns() + 50000000);
    for (i = 0; n > 0 && i < SERVE_CONNS; i++) {
        if (!b->poll[i].revents || !serve_conn(a, b, &b->conn[i], answered)) continue;
        (void)gw_sock_close_thread(a->net, b->conn[i].s, gw_clock_ns() + a->limit_ns);
        b->conn[i].s = -1;
    }
    if (n > 0 && b->poll[SERVE_CONNS].revents) accept_one(a, b, l);
    return n < 0 ? n : 0;
}

GW_DEV int open_server(const struct serve_args *a)
{
    uint64_t until = gw_clock_ns() + a->limit_ns;
    int one = 1, l = gw_sock_open_thread(a->net, a->addr.ss_family, SOCK_STREAM, 0, until),
        err = l < 0 ? l : 0;

    if (!err && a->addr.ss_family != AF_UNIX)
        err = gw_sock_setsockopt_thread(a->net, l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    /* What it accepts has that, too: answers go in several pieces. */
    if (!err && a->addr.ss_family != AF_UNIX)
        err = gw_sock_setsockopt_thread(a->net, l, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!err) err = gw_sock_bind_thread(a->net, l, (const struct sockaddr *)&a->addr, a->len, until);
    if (!err) err = gw_sock_listen_thread(a->net, l, 128, until);
    return err ? err : l;
}

GW_DEV int64_t serve(const struct serve_args *a)
{
    struct serve_block *b = &a->block[gw_block_idx()];
    int64_t answered = 0;
    uint32_t i, round = 0;
    int32_t l;
    int err = 0;

    if (gw_block_idx() == 0)
        gw_st_release_u32(a->listener, (uint32_t)open_server(a)); /* release: it listens */
    while ((l = (int32_t)gw_ld_acquire_u32(a->listener)) == -1) gw_pause(round++);
    if (l < 0) return l;
    for (i = 0; i < SERVE_CONNS; i++) b->conn[i].s = -1;
    while (!err && !gw_ld_relaxed_u32(a->stop)) err = serve_round(a, b, l, &answered);
    for (i = 0; i < SERVE_CONNS; i++)
        if (b->conn[i].s >= 0) (void)gw_sock_close_thread(a->net, b->conn[i].s, gw_clock_ns() + a->limit_ns);
    return err ? err : answered;
}

#include "tests/socket/ask_body.h"

GW_KERNEL(serve_kernel, struct serve_args, a)
{
    if (gw_thread_idx()) return;
    a->result[gw_block_idx()] = a->what >= ASK_MEMCACHED ? ask(a) : serve(a);
}
