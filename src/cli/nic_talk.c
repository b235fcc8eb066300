/* SPDX-License-Identifier: Apache-2.0 */
/* Asks one software NIC, and checks its answer before anything prints it. */
#include "src/cli/nic_talk.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "softnic/base/cred.h"
#include "softnic/runtime/control.h"

enum { ANSWER_MS = 5000 };

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

int gw_nic_connect(const char *name, int wait_ms, struct ucred *peer)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    int err = 0, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait_ms ? 0 : SOCK_NONBLOCK), 0);

    if (fd < 0) return -errno;
    memcpy(sa.sun_path + 1, name, strlen(name));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&sa,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))))
        err = -errno;
    if (!err) err = sn_cred_of_socket(fd, peer);
    if (!err) return fd;
    close(fd);
    return err;
}

/* ---- the answer's text --------------------------------------------------------------------------------- */

struct reader {
    int fd;
    int64_t until;
    struct gw_nic_room *room;
    const char *wrong;
};

/* Each value in a JSON text follows one of these; in strings they count too much, which is as well. */
static size_t values_in(const char *text, size_t n)
{
    size_t values = 0;

    for (size_t i = 0; i < n; i++) values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return values;
}

static bool nic_talk_fits(struct gw_nic_room *room, const char *text, size_t n)
{
    size_t values = values_in(text, n);

    if (n > room->bytes || values > room->values) return false;
    room->bytes -= n;
    room->values -= values;
    return true;
}

/* For jansson: the next part of the text, 0 at its end. */
static size_t nic_talk_receive(void *buffer, size_t size, void *arg)
{
    struct reader *r = arg;
    int64_t left = r->until - now_ms();
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    ssize_t n;

    if (left <= 0 || poll(&p, 1, (int)left) <= 0) {
        r->wrong = "did not answer in time";
        return (size_t)-1;
    }
    n = recv(r->fd, buffer, size, MSG_DONTWAIT);
    if (n < 0) {
        r->wrong = "closed the connection";
        return (size_t)-1;
    }
    if (nic_talk_fits(r->room, buffer, (size_t)n)) return (size_t)n;
    r->wrong = "sends a longer answer than any software NIC";
    return (size_t)-1;
}

/* ---- what would disturb a terminal --------------------------------------------------------------------- */

/* Control characters: those of ASCII, and those that UTF-8 writes as C2 80 to C2 9F. */
static bool is_control(const unsigned char *at)
{
    return *at < 0x20 || *at == 0x7f || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
}

static bool is_tidy(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (is_control(p)) return false;
    return true;
}

static void tidy_string(json_t *string)
{
    char *copy = strdup(json_string_value(string));
    unsigned char *to = (unsigned char *)copy;

    for (const unsigned char *p = to; p && *p; p++) {
        bool two = *p == 0xc2;

        *to++ = is_control(p) ? '?' : *p;
        if (to[-1] == '?' && two) p++;
    }
    if (to) *to = 0;
    json_string_set(string, copy ? copy : "");
    free(copy);
}

/* As deep as jansson reads, which is not endless. */
static void tidy(json_t *value)
{
    const char *name;
    json_t *member;
    void *next;
    size_t i;

    json_object_foreach_safe(value, next, name, member)
    {
        if (is_tidy(name))
            tidy(member);
        else
            json_object_del(value, name);
    }
    json_array_foreach(value, i, member) tidy(member);
    if (json_is_string(value) && !is_tidy(json_string_value(value))) tidy_string(value);
}

/* ---- both together ------------------------------------------------------------------------------------- */

json_t *gw_nic_talk(int fd, const char *request, struct gw_nic_room *room, const char **wrong)
{
    struct reader r = {fd, now_ms() + ANSWER_MS, room, "does not answer as a software NIC"};
    char line[SN_CONTROL_REQUEST];
    json_t *answer = NULL;
    int n = snprintf(line, sizeof(line), "%s\n", request);

    if (n < (int)sizeof(line) && send(fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n)
        answer = json_load_callback(nic_talk_receive, &r, 0, NULL);
    close(fd);
    if (json_is_object(answer)) {
        tidy(answer);
        return answer;
    }
    json_decref(answer);
    *wrong = r.wrong;
    return NULL;
}
