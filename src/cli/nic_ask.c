/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/nic_ask.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "softnic/control.h"

enum { ANSWER_SECONDS = 5, ANSWER_LIMIT = 256 << 20 };

/* ---- one NIC ------------------------------------------------------------------------------------------- */

static int open_connection(const char *name, struct ucred *peer)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    socklen_t len = sizeof(*peer);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) return -1;
    memcpy(sa.sun_path + 1, name, strlen(name));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&sa,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Anybody can take such a name: only answers of this user's processes are believed, or of the one asked for.
 */
static int trusted(const struct ucred *peer, pid_t pid)
{
    if (pid) return peer->pid == pid && (peer->uid == geteuid() || geteuid() == 0);
    return peer->uid == geteuid();
}

static size_t receive(void *buffer, size_t room, void *fd)
{
    ssize_t n = recv(*(int *)fd, buffer, room, 0);

    return n < 0 ? (size_t)-1 : (size_t)n;
}

static json_t *ask(const char *name, const char *request, pid_t pid)
{
    char line[SN_CONTROL_REQUEST];
    json_t *answer = NULL;
    struct ucred peer;
    int fd = open_connection(name, &peer), n;

    if (fd < 0) return NULL;
    n = snprintf(line, sizeof(line), "%s\n", request);
    if (trusted(&peer, pid) && n < (int)sizeof(line) && send(fd, line, (size_t)n, MSG_NOSIGNAL) == n)
        answer = json_load_callback(receive, &fd, 0, NULL);
    close(fd);
    if (json_is_object(answer)) {
        json_object_set_new(answer, "pid", json_integer(peer.pid)); /* which may have another one to itself */
        return answer;
    }
    json_decref(answer);
    return NULL;
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* The name of a listening socket of ours in a line of /proc/net/unix; NULL: it is none. */
static const char *nic_name(char *line)
{
    unsigned refs, protocol, flags;
    char *at = strchr(line, '@');

    if (!at || sscanf(line, "%*[^:]: %x %x %x", &refs, &protocol, &flags) != 3) return NULL;
    if (!(flags & 0x10000)) return NULL; /* one of its connections */
    at++;
    at[strcspn(at, "\n")] = 0;
    if (strncmp(at, SN_CONTROL_PREFIX, strlen(SN_CONTROL_PREFIX)) || strlen(at) > 100) return NULL;
    return at;
}

static int by_pid(const void *a, const void *b)
{
    json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "pid"));
    json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, "pid"));

    return x < y ? -1 : x > y;
}

static json_t *sorted(json_t *all)
{
    size_t n = json_array_size(all), i;
    json_t **list = calloc(n + 1, sizeof(*list)), *out = json_array(), *one;

    if (!list || !out) {
        free(list);
        json_decref(out);
        return all;
    }
    json_array_foreach(all, i, one) list[i] = one;
    qsort(list, n, sizeof(*list), by_pid);
    for (i = 0; i < n; i++) json_array_append(out, list[i]);
    free(list);
    json_decref(all);
    return out;
}

json_t *gw_nic_ask(const char *request, pid_t pid)
{
    FILE *f = fopen("/proc/net/unix", "re");
    json_t *all = json_array(), *one;
    char line[512];

    if (!f || !all) {
        if (f) fclose(f);
        json_decref(all);
        return NULL;
    }
    while (fgets(line, sizeof(line), f)) {
        const char *name = nic_name(line);

        one = name ? ask(name, request, pid) : NULL;
        if (one) json_array_append_new(all, one);
    }
    fclose(f);
    return sorted(all);
}
