/* SPDX-License-Identifier: Apache-2.0 */
/* Answers `gpuwire nic` on a socket and a thread. */
#include "softnic/runtime/control.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "softnic/base/cred.h"
#include "softnic/base/spawn.h"
#include "softnic/nic/introspect.h"

/* CLIENT_SECONDS: for a client that neither asks nor reads; SERVED_SECONDS: for one who does so byte by
 * byte. */
enum { STACK = 256 << 10, BACKLOG = 8, CLIENT_SECONDS = 1, SERVED_SECONDS = 5 };
/* After a stranger was refused: strangers who connect without end take next to no processor time. */
#define REFUSED_NS 1000000
#define LOCK_NS    UINT64_C(1000000000)
#define REFUSAL    "{\"error\": \"this NIC is another user's: only that user and root may ask it\"}\n"

struct sn_control {
    struct sn_control_parts parts;
    char *settings; /* a copy */
    int fd, stop;
    pthread_t thread;
};

/* ---- requests ------------------------------------------------------------------------------------------ */

static void answer_error(FILE *f, const char *what)
{
    fprintf(f, "{\"error\": ");
    sn_json_string(f, what);
    fprintf(f, "}\n");
}

static void change_faults(const struct sn_control_parts *p, const char *list, FILE *f)
{
    struct sn_faults faults;
    char why[256], text[SN_FAULTS_TEXT];
    uint64_t seed;
    bool has_seed;
    int err;

    if (sn_faults_parse(list, &faults, &seed, &has_seed, why)) {
        answer_error(f, why);
        return;
    }
    if (sn_introspect_lock(p->nic, LOCK_NS)) {
        answer_error(f, "the NIC has been inside one call for a second: nothing was changed");
        return;
    }
    err = sn_port_set_faults(p->port, &faults, has_seed ? &seed : NULL);
    sn_nic_unlock(p->nic);
    if (err) {
        answer_error(f, strerror(-err));
        return;
    }
    sn_thread_kick(p->thread); /* it may sleep longer than the new network lets it */
    fprintf(f, "{\"faults\": ");
    sn_json_string(f, sn_faults_text(&faults, text));
    fprintf(f, "}\n");
}

/* The link is not touched: there are faults for that. */
static void raise_event(const struct sn_control_parts *p, const char *name, FILE *f)
{
    static const struct {
        const char *name;
        enum ibv_event_type type;
    } events[] = {{"device-fatal", IBV_EVENT_DEVICE_FATAL},
                  {"port-err", IBV_EVENT_PORT_ERR},
                  {"port-active", IBV_EVENT_PORT_ACTIVE}};

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (strcmp(name, events[i].name) || !p->event) continue;
        if (events[i].type == IBV_EVENT_DEVICE_FATAL) sn_nic_fail(p->nic);
        p->event(p->nic, events[i].type);
        fprintf(f, "{\"event\": ");
        sn_json_string(f, name);
        fprintf(f, "}\n");
        return;
    }
    answer_error(f, "there are the events device-fatal, port-err and port-active");
}

static void nic_control_answer(const struct sn_control_parts *p, const char *request, FILE *f)
{
    char *end;
    unsigned long qpn;

    if (strcmp(request, "show") == 0) {
        sn_control_show(p, 0, f);
    } else if (strncmp(request, "show ", 5) == 0) {
        qpn = strtoul(request + 5, &end, 0);
        if (*end || end == request + 5 || !qpn || qpn > 0xffffff)
            answer_error(f, "not a queue pair's number");
        else
            sn_control_show(p, (uint32_t)qpn, f);
    } else if (strncmp(request, "fault ", 6) == 0) {
        change_faults(p, request + 6, f);
    } else if (strncmp(request, "event ", 6) == 0) {
        raise_event(p, request + 6, f);
    } else {
        answer_error(f, "this version of the software NIC does not know that request");
    }
}

/* ---- connections --------------------------------------------------------------------------------------- */

static bool nic_control_allowed(int fd)
{
    struct ucred peer;

    return sn_cred_of_socket(fd, &peer) == 0 && (sn_cred_is_user(&peer, 0) || sn_cred_is_ours(&peer));
}

static bool nic_control_stopping(struct sn_control *c)
{
    return __atomic_load_n(&c->stop, __ATOMIC_RELAXED); /* a flag alone: pthread_join orders the rest */
}

/* Is this client's time over, or the process's? */
static bool nic_control_is_over(struct sn_control *c, time_t since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return nic_control_stopping(c) || now.tv_sec - since > SERVED_SECONDS;
}

/* One line, without its end. */
static bool nic_control_read_request(struct sn_control *c, int fd, time_t since, char *request)
{
    size_t n = 0;

    while (n < SN_CONTROL_REQUEST && !nic_control_is_over(c, since)) {
        ssize_t got = recv(fd, request + n, SN_CONTROL_REQUEST - n, 0);
        char *end;

        if (got <= 0) return false;
        end = memchr(request + n, '\n', (size_t)got);
        n += (size_t)got;
        if (!end) continue;
        *end = 0;
        return true;
    }
    return false;
}

static void nic_control_send_all(struct sn_control *c, int fd, time_t since, const char *data, size_t len)
{
    while (len && !nic_control_is_over(c, since)) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0) return;
        data += n;
        len -= (size_t)n;
    }
}

static void nic_control_refuse(int fd)
{
    const struct timespec pause = {.tv_nsec = REFUSED_NS};

    /* Never waits: the socket is new and empty. */
    send(fd, REFUSAL, strlen(REFUSAL), MSG_NOSIGNAL | MSG_DONTWAIT);
    nanosleep(&pause, NULL);
}

static void nic_control_serve(struct sn_control *c, int fd)
{
    struct timeval limit = {.tv_sec = CLIENT_SECONDS};
    char request[SN_CONTROL_REQUEST], *text = NULL;
    struct timespec since;
    size_t len = 0;
    FILE *f;

    clock_gettime(CLOCK_MONOTONIC, &since);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (!nic_control_allowed(fd)) {
        nic_control_refuse(fd);
        return;
    }
    if (!nic_control_read_request(c, fd, since.tv_sec, request)) return;
    f = open_memstream(&text, &len);
    if (!f) return;
    nic_control_answer(&c->parts, request, f);
    if (fclose(f) == 0) nic_control_send_all(c, fd, since.tv_sec, text, len);
    free(text);
}

static void *nic_control_run(void *arg)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    struct sn_control *c = arg;

    prctl(PR_SET_NAME, "gw-see");
    while (!nic_control_stopping(c)) {
        int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            nic_control_serve(c, fd);
            close(fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            nanosleep(&pause, NULL); /* no descriptors are left, say */
        }
    }
    return NULL;
}

/* ---- making and ending --------------------------------------------------------------------------------- */

static int nic_control_open_socket(struct sn_control *c)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    uint32_t number;
    int n;

    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) return -errno;
    /* Processes of several PID name spaces may share this name space. */
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) number = (uint32_t)(uintptr_t)c;
    n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, SN_CONTROL_PREFIX "%d-%08x", (int)getpid(),
                 number);
    if (bind(c->fd, (struct sockaddr *)&sa,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
        return -errno;
    return listen(c->fd, BACKLOG) ? -errno : 0;
}

int sn_control_start(const struct sn_control_parts *parts, struct sn_control **control)
{
    struct sn_control *c = calloc(1, sizeof(*c));
    int err;

    if (!c) return -ENOMEM;
    c->parts = *parts;
    c->fd = -1;
    c->parts.settings = c->settings = strdup(parts->settings);
    err = c->settings ? nic_control_open_socket(c) : -ENOMEM;
    if (!err) err = sn_spawn(&c->thread, STACK, nic_control_run, c);
    if (err) {
        if (c->fd >= 0) close(c->fd);
        free(c->settings);
        free(c);
        return err;
    }
    *control = c;
    return 0;
}

void sn_control_stop(struct sn_control *c)
{
    if (!c) return;
    __atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
    shutdown(c->fd, SHUT_RDWR); /* ends its accept, now and from now on */
    pthread_join(c->thread, NULL);
    close(c->fd);
    free(c->settings);
    free(c);
}

int sn_control_fd(const struct sn_control *c)
{
    return c->fd;
}
