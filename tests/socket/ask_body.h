/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel as a client of programs of the host: a part of serve_kernels_body.h, whose words it uses. */

/* Receives until `end` has come. How many bytes; or an error. */
GW_DEV int64_t hear(const struct serve_args *a, int s, char *in, uint32_t size, const char *end)
{
    uint32_t have = 0;
    int64_t got;

    while (have < size) {
        got = gw_sock_recv_thread(a->net, s, in + have, size - have, 0, gw_clock_ns() + a->limit_ns);
        if (got <= 0) return got ? got : -ECONNABORTED;
        have += (uint32_t)got;
        if (find_text(in, have, end) >= 0) return have;
    }
    return -EMSGSIZE;
}

/* Text in which each row of four # stands for number v. */
struct ask_text {
    char s[64];
};

GW_DEV struct ask_text text_of(const char *words, uint32_t v)
{
    struct ask_text t;
    uint32_t i, k = 0, part;

    for (i = 0; words[i] && i < sizeof(t.s) - 1; i++) {
        part = k % 4 == 0 ? v / 1000 : k % 4 == 1 ? v / 100 : k % 4 == 2 ? v / 10 : v;
        t.s[i] = words[i] == '#' ? (char)('0' + part % 10) : words[i];
        k += words[i] == '#';
    }
    t.s[i] = 0;
    return t;
}

/* Says one and wants to hear the other, and nothing else. */
GW_DEV int64_t ask_text(const struct serve_args *a, int s, char *in, const char *say, const char *want,
                        uint32_t v)
{
    struct ask_text out = text_of(say, v), answer = text_of(want, v);
    int64_t got;

    if (say_text(a, s, out.s)) return -EPIPE;
    got = hear(a, s, in, text_len(answer.s), answer.s);
    return got == -EMSGSIZE ? -EILSEQ : got < 0 ? got : got == text_len(answer.s) ? 0 : -EILSEQ;
}

/* Key i has a value that is i after three digits. */
GW_DEV int64_t ask_store(const struct serve_args *a, int s, char *in, int redis)
{
    int64_t err = 0;
    uint32_t i;

    for (i = 0; i < a->n && !err; i++) {
        err = redis
                  ? ask_text(a, s, in, "*3\r\n$3\r\nSET\r\n$8\r\nkey-####\r\n$7\r\n100####\r\n", "+OK\r\n", i)
                  : ask_text(a, s, in, "set key-#### 0 0 7\r\n100####\r\n", "STORED\r\n", i);
        if (err) break;
        err = redis ? ask_text(a, s, in, "*2\r\n$3\r\nGET\r\n$8\r\nkey-####\r\n", "$7\r\n100####\r\n", i)
                    : ask_text(a, s, in, "get key-####\r\n", "VALUE key-#### 0 7\r\n100####\r\nEND\r\n", i);
    }
    return err ? err : i;
}

/* n times 1000 bytes, and back; then the end both ways. */
GW_DEV int64_t ask_echo(const struct serve_args *a, int s, char *in)
{
    uint32_t i, j;

    for (i = 0; i < a->n; i++) {
        for (j = 0; j < 1000; j++) in[j] = (char)(i + j * 7);
        if (say_bytes(a, s, in, 1000)) return -EPIPE;
        memset(in, 0, 1000);
        if (gw_sock_recv_thread(a->net, s, in, 1000, MSG_WAITALL, gw_clock_ns() + a->limit_ns) != 1000)
            return -ECONNABORTED;
        for (j = 0; j < 1000; j++)
            if (in[j] != (char)(i + j * 7)) return -EILSEQ;
    }
    if (gw_sock_shutdown_thread(a->net, s, SHUT_WR, gw_clock_ns() + a->limit_ns)) return -EPIPE;
    return gw_sock_recv_thread(a->net, s, in, 1, 0, gw_clock_ns() + a->limit_ns) ? -EILSEQ : (int64_t)i;
}

/* ---- HTTP ---------------------------------------------------------------------------------------------- */

/* The number after `name` in a head of n bytes; -EPROTO: there is none, or it is too large. */
GW_DEV int64_t head_number(const char *head, uint32_t n, const char *name)
{
    int32_t at = find_text(head, n, name);
    int64_t v = 0;
    uint32_t i;

    if (at < 0) return -EPROTO;
    i = (uint32_t)at + text_len(name);
    if (i >= n || head[i] < '0' || head[i] > '9') return -EPROTO;
    for (; i < n && head[i] >= '0' && head[i] <= '9' && v < 1 << 30; i++) v = v * 10 + (head[i] - '0');
    return v < 1 << 30 ? v : -EPROTO;
}

/* The alphabet, again and again: is byte number `at` of it here, and what follows? */
GW_DEV int is_alphabet(const char *in, uint32_t n, uint64_t at)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        if (in[i] != (char)('a' + (at + i) % 26)) return 0;
    return 1;
}

/* One answer with its body. 0, or an error. */
GW_DEV int64_t hear_http(const struct serve_args *a, int s, char *in)
{
    int64_t have = hear(a, s, in, SERVE_BYTES, "\r\n\r\n"), length, got;
    const char *part;
    uint64_t at = 0;
    uint32_t head;

    if (have < 0) return have;
    head = (uint32_t)find_text(in, (uint32_t)have, "\r\n\r\n") + 4;
    if (have < 13 || !same_bytes(in, "HTTP/1.1 200 ", 13)) return -ENOENT;
    length = head_number(in, head, "\r\nContent-Length: ");
    if (length < 1) return length ? length : -EPROTO;
    for (got = have - head, part = in + head; got >= 0; part = in) {
        if (!is_alphabet(part, (uint32_t)got, at)) return -EILSEQ;
        at += (uint64_t)got;
        if (at >= (uint64_t)length) return at == (uint64_t)length ? 0 : -EPROTO;
        got = gw_sock_recv_thread(a->net, s, in, gw_smaller_((uint64_t)length - at, SERVE_BYTES), 0,
                                  gw_clock_ns() + a->limit_ns);
        if (!got) got = -ECONNABORTED;
    }
    return got;
}

/* The file /letters, n times on one connection. */
GW_DEV int64_t ask_http(const struct serve_args *a, int s, char *in)
{
    int64_t err = 0;
    uint32_t i;

    for (i = 0; i < a->n && !err; i++) {
        if (say_text(a, s, "GET /letters HTTP/1.1\r\nHost: letters\r\n\r\n")) return -EPIPE;
        err = hear_http(a, s, in);
    }
    return err ? err : i;
}

/* ---- whichever it is ---------------------------------------------------------------------------------- */

GW_DEV int64_t ask(const struct serve_args *a)
{
    uint64_t until = gw_clock_ns() + a->limit_ns;
    int s = gw_sock_open_thread(a->net, a->addr.ss_family, SOCK_STREAM, 0, until), err;
    char *in = a->block[0].conn[0].bytes;
    int64_t got;

    if (s < 0) return s;
    err = gw_sock_connect_thread(a->net, s, (const struct sockaddr *)&a->addr, a->len, until);
    got = err                        ? err
          : a->what == ASK_MEMCACHED ? ask_store(a, s, in, 0)
          : a->what == ASK_REDIS     ? ask_store(a, s, in, 1)
          : a->what == ASK_HTTP      ? ask_http(a, s, in)
                                     : ask_echo(a, s, in);
    err = gw_sock_close_thread(a->net, s, gw_clock_ns() + a->limit_ns);
    return got < 0 || !err ? got : err;
}
