/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the software NICs of this machine, and asks each of them. */
#include "src/cli/nic_ask.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softnic/base/cred.h"
#include "softnic/runtime/control.h"
#include "src/cli/nic_talk.h"

/* How long all sockets together may take that have no place for one more: anybody can make any number of
 * those. */
enum { FULL_MS = 3000 };

/* One search. What is in the way is told once, however often it is met. */
struct search {
    const char *request;
    pid_t pid;
    json_t *answers, *full; /* the names of the full ones */
    struct gw_nic_room room;
    unsigned others; /* sockets with the process's number in their name that are not its own */
    struct ucred other;
    bool other_user;
};

/* ---- one NIC ------------------------------------------------------------------------------------------- */

/* Does the name say that it is that process's? */
static bool says_pid(const char *name, pid_t pid)
{
    return pid && strtol(name + strlen(SN_CONTROL_PREFIX), NULL, 10) == pid;
}

/* Anybody can take such a name: only answers of this user's processes are believed, or of the one asked
 * for. */
static bool trusted(struct search *s, const char *name, const struct ucred *peer)
{
    if (!s->pid) return sn_cred_is_ours(peer);
    if (peer->pid == s->pid) {
        if (geteuid() == 0 || sn_cred_is_ours(peer)) return true;
        s->other_user = true;
    } else if (says_pid(name, s->pid)) {
        s->others++;
    } else {
        return false;
    }
    s->other = *peer;
    return false;
}

/* By a signal, or by a debugger. The name of the program in between may hold anything, so the last ')' ends
 * it. */
static bool is_stopped(pid_t pid)
{
    char path[32], line[512] = "";
    const char *end = NULL;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    if (fgets(line, sizeof(line), f)) end = strrchr(line, ')');
    fclose(f);
    return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

static void nic_ask_one(struct search *s, const char *name, int wait_ms)
{
    struct ucred peer;
    int fd = gw_nic_connect(name, wait_ms, &peer);
    const char *wrong;
    json_t *answer;

    if (fd == -EAGAIN) json_array_append_new(s->full, json_string(name));
    if (fd < 0) return;
    if (!trusted(s, name, &peer)) {
        close(fd);
        return;
    }
    answer = gw_nic_talk(fd, s->request, &s->room, &wrong);
    if (!answer) {
        if (is_stopped(peer.pid))
            fprintf(stderr, "gpuwire nic: process %d is stopped: left out; `kill -CONT %d` lets it go on\n",
                    (int)peer.pid, (int)peer.pid);
        else
            fprintf(stderr, "gpuwire nic: process %d %s: left out\n", (int)peer.pid, wrong);
        return;
    }
    json_object_set_new(answer, "pid", json_integer(peer.pid)); /* which may have another one to itself */
    json_array_append_new(s->answers, answer);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* The name of a listening socket of ours in a line of /proc/net/unix; NULL: it is none. */
static const char *nic_ask_name(char *line)
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

/* NICs that had no place for one more. They may have one now, and each may take its share of the time. */
static void ask_full(struct search *s)
{
    json_t *names = s->full, *name;
    size_t n = json_array_size(names), i;

    s->full = json_array();
    json_array_foreach(names, i, name) nic_ask_one(s, json_string_value(name), FULL_MS / (int)n + 1);
    json_decref(names);
}

static void nic_ask_tell(const struct search *s)
{
    size_t full = json_array_size(s->full);

    if (s->others)
        fprintf(
            stderr,
            "gpuwire nic: %u sockets are named as process %d's and are not: one is of process %d of user %u; "
            "they were not asked\n",
            s->others, (int)s->pid, (int)s->other.pid, (unsigned)s->other.uid);
    if (s->other_user)
        fprintf(stderr, "gpuwire nic: process %d is user %u's: only that user and root may ask it\n",
                (int)s->pid, (unsigned)s->other.uid);
    if (full)
        fprintf(stderr, "gpuwire nic: %zu sockets that are named as a NIC's accept no connection: left out\n",
                full);
}

json_t *gw_nic_ask(const char *request, pid_t pid)
{
    struct search s = {.request = request, .pid = pid, .room = GW_NIC_ROOM};
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512];

    s.answers = json_array();
    s.full = json_array();
    if (!f || !s.answers || !s.full) {
        if (f) fclose(f);
        json_decref(s.answers);
        json_decref(s.full);
        return NULL;
    }
    while (fgets(line, sizeof(line), f)) {
        const char *name = nic_ask_name(line);

        if (name) nic_ask_one(&s, name, 0);
    }
    fclose(f);
    if (json_array_size(s.full)) ask_full(&s);
    nic_ask_tell(&s);
    json_decref(s.full);
    return sorted(s.answers);
}
