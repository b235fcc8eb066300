/* SPDX-License-Identifier: Apache-2.0 */
/* A small client of memcached, in its text protocol: one command, one answer. */
#include "apps/faceverify/enrol/store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>

enum { PATIENCE_S = 5, LINE_MAX_BYTES = 512 };

struct face_store {
    struct mc_servers servers;
    struct mc_ring ring;
    struct mc_point point[MC_POINTS_MAX];
    int fd[MC_SERVERS_MAX]; /* -1: not connected */
    /* What a server has sent and nothing has taken yet; a command's answer is taken whole. */
    char in[LINE_MAX_BYTES + sizeof(struct face_value)];
    size_t got, taken;
};

int face_store_open(const char *command, const char *servers, const char *spread, struct face_store **out)
{
    struct face_store *s = calloc(1, sizeof(*s));
    uint32_t how = MC_MODULA;
    if (!s) return gw_fail(command, "no memory");
    int err = mc_servers_parse(command, servers, &s->servers);
    if (!err && spread) err = mc_spread_parse(command, spread, &how);
    if (err) {
        free(s);
        return err;
    }
    mc_ring_make(&s->servers, how, s->point, &s->ring);
    for (int i = 0; i < MC_SERVERS_MAX; i++) s->fd[i] = -1;
    *out = s;
    return 0;
}

static void store_hang_up(struct face_store *s, uint32_t server)
{
    if (s->fd[server] >= 0) close(s->fd[server]);
    s->fd[server] = -1;
}

void face_store_close(struct face_store *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < MC_SERVERS_MAX; i++) store_hang_up(s, i);
    free(s);
}

/* Closes the connection, whose state is not known, and says why. */
static int store_failed(struct face_store *s, uint32_t server, int err, const char *what)
{
    store_hang_up(s, server);
    if (err == -EAGAIN || err == -EINPROGRESS) err = -ETIMEDOUT;
    return gw_error_errno(err, "memcached %s:%u: %s", s->servers.server[server].host,
                          s->servers.server[server].port, what);
}

static int store_connect(struct face_store *s, uint32_t server)
{
    const struct timeval patience = {PATIENCE_S, 0};
    if (s->fd[server] >= 0) return 0;
    int fd = socket(s->servers.server[server].addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return store_failed(s, server, -errno, "no socket");
    s->fd[server] = fd;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&s->servers.server[server].addr, s->servers.server[server].len))
        return store_failed(s, server, -errno, "cannot connect");
    return 0;
}

static int store_send(struct face_store *s, uint32_t server, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = send(s->fd[server], at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return store_failed(s, server, -errno, "cannot send");
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Waits until at least `size` bytes are there. */
static int store_fill(struct face_store *s, uint32_t server, size_t size)
{
    if (s->taken + size > sizeof(s->in)) return store_failed(s, server, -EPROTO, "its answer is too long");
    while (s->got - s->taken < size) {
        ssize_t n = recv(s->fd[server], s->in + s->got, sizeof(s->in) - s->got, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return store_failed(s, server, n ? -errno : -ECONNRESET, "no answer");
        s->got += (size_t)n;
    }
    return 0;
}

/* Takes a line, without its end. */
static int store_line(struct face_store *s, uint32_t server, const char **line)
{
    for (;;) {
        char *from = s->in + s->taken, *end = memchr(from, '\n', s->got - s->taken);
        if (end) {
            *end = 0;
            if (end > from && end[-1] == '\r') end[-1] = 0;
            s->taken = (size_t)(end + 1 - s->in);
            *line = from;
            return 0;
        }
        if (s->got - s->taken >= LINE_MAX_BYTES)
            return store_failed(s, server, -EPROTO, "its answer is no line");
        int err = store_fill(s, server, s->got - s->taken + 1);
        if (err) return err;
    }
}

struct store_command {
    const char *word, *name;
    const struct face_value *value; /* NULL: there is none to send */
};

/* Sends the command to the name's server and takes the first line of the answer. An old connection may have
 * ended since: then a new one is tried, once. */
static int store_ask(struct face_store *s, const struct store_command *c, uint32_t *server, const char **line)
{
    char key[FACE_KEY_MAX + 1], command[LINE_MAX_BYTES], rest[32] = "";
    const char *name = c->name;
    size_t len = strlen(name);
    if (!face_name_valid(name, len))
        return gw_error(-EINVAL, "%.40s: a name has 1 to %d bytes, and no blanks", name, FACE_NAME_MAX);
    key[face_key(key, name, len)] = 0;
    uint32_t i = *server = mc_server_of(&s->ring, key, (uint32_t)strlen(key));
    if (c->value) snprintf(rest, sizeof(rest), " 0 0 %zu", sizeof(*c->value));
    size_t size = (size_t)snprintf(command, sizeof(command), "%s %s%s\r\n", c->word, key, rest);
    for (bool again = s->fd[i] >= 0;; again = false) {
        s->got = s->taken = 0;
        int err = store_connect(s, i);
        if (!err) err = store_send(s, i, command, size);
        if (!err && c->value) err = store_send(s, i, c->value, sizeof(*c->value));
        if (!err && c->value) err = store_send(s, i, "\r\n", 2);
        if (!err) err = store_line(s, i, line);
        if (!err || !again || err == -ETIMEDOUT) return err;
    }
}

static int store_refused(struct face_store *s, uint32_t server, const char *line)
{
    store_hang_up(s, server);
    return gw_error(-EPROTO, "memcached %s:%u says: %.100s", s->servers.server[server].host,
                    s->servers.server[server].port, line);
}

int face_store_put(struct face_store *s, const char *name, const struct face_histogram *h)
{
    struct face_value value;
    uint32_t server;
    const char *line;
    face_value_head(&value, name, strlen(name));
    value.histogram = *h;
    int err = store_ask(s, &(struct store_command){"set", name, &value}, &server, &line);
    if (err) return err;
    return strcmp(line, "STORED") ? store_refused(s, server, line) : 0;
}

int face_store_get(struct face_store *s, const char *name, struct face_histogram *h)
{
    struct face_value value;
    uint32_t server;
    const char *line;
    char key[FACE_KEY_MAX + 1];
    unsigned long flags, bytes;
    int err = store_ask(s, &(struct store_command){"get", name, NULL}, &server, &line);
    if (err) return err;
    if (!strcmp(line, "END")) return gw_error(-ENOENT, "%s is not enrolled", name);
    if (sscanf(line, "VALUE %205s %lu %lu", key, &flags, &bytes) != 3 || bytes > 8 * sizeof(value))
        return store_refused(s, server, line);
    if (bytes != sizeof(value)) {
        store_hang_up(s, server);
        return gw_error(-EBADMSG, "%s: memcached has %lu bytes under that key, which are no histogram", name,
                        bytes);
    }
    err = store_fill(s, server, sizeof(value) + 2);
    if (err) return err;
    memcpy(&value, s->in + s->taken, sizeof(value));
    s->taken += sizeof(value) + 2;
    err = store_line(s, server, &line);
    if (err) return err;
    if (strcmp(line, "END")) return store_refused(s, server, line);
    if (!face_value_is_of(&value, face_name_hash(name, strlen(name))) ||
        !face_histogram_valid(&value.histogram))
        return gw_error(-EBADMSG, "%s: what memcached has under that key is no histogram of that name", name);
    *h = value.histogram;
    return 0;
}

int face_store_remove(struct face_store *s, const char *name)
{
    uint32_t server;
    const char *line;
    int err = store_ask(s, &(struct store_command){"delete", name, NULL}, &server, &line);
    if (err) return err;
    if (!strcmp(line, "NOT_FOUND")) return gw_error(-ENOENT, "%s is not enrolled", name);
    return strcmp(line, "DELETED") ? store_refused(s, server, line) : 0;
}
