/* SPDX-License-Identifier: Apache-2.0 */
/* Reaches the data plane's socket, or starts the process that listens there. */
#include "src/balance/control/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/wire.h"

#define ASK_NS    10000000000u
#define ANSWER_NS 1000000000u  /* for one that may be silent still: nothing else is done until then */
#define START_NS  60000000000u /* DPDK looks at all devices, and huge pages are zeroed */

int gw_bal_link_open(struct gw_bal_link *l, const char *run_dir)
{
    struct sockaddr_un to;
    int err = gw_bal_socket_path(run_dir, &to);
    if (err) return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return gw_error_errno(-errno, "socket");
    if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
        err = gw_error_errno(-errno, "%s", to.sun_path);
        close(fd);
        return err;
    }
    l->fd = fd;
    return 0;
}

/* In memory of its own, which the new process inherits: the file may be another one by now. -1: no memory. */
static int settings_fd(const struct gw_bal_global *g)
{
    int fd = memfd_create("gpuwire-balance", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, g, sizeof(*g)) == (ssize_t)sizeof(*g)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int gw_bal_settings_take(const char *fd, struct gw_bal_global *out)
{
    char *end;
    struct stat st;
    long n = strtol(fd, &end, 10);
    if (n > STDERR_FILENO && !*end && !fstat((int)n, &st) && st.st_size == (off_t)sizeof(*out) &&
        pread((int)n, out, sizeof(*out), 0) == (ssize_t)sizeof(*out)) {
        close((int)n);
        return 0;
    }
    return gw_error(-EINVAL, "plane: %.16s: only `gpuwire balance --config FILE` starts it so", fd);
}

static void become_plane(const char *config, int settings, const sigset_t *mask)
{
    char fd[16];
    snprintf(fd, sizeof(fd), "%d", settings);
    fcntl(settings, F_SETFD, 0);
    setsid(); /* the terminal's Ctrl-C is for the control plane */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execl("/proc/self/exe", "gpuwire", "balance", "plane", "--config", config, fd, (char *)NULL);
    fprintf(stderr, "gpuwire balance: cannot start the data plane: %s\n", strerror(errno));
    _exit(1);
}

bool gw_bal_link_ended(struct gw_bal_link *l)
{
    if (!l->child || waitpid(l->child, NULL, WNOHANG) != l->child) return false;
    l->child = 0;
    return true;
}

static int ask_within(struct gw_bal_link *l, json_t *question, uint64_t ns, json_t **answer);

/* 1: packets flow; 0: not yet. Or a negative errno. */
static int ask_ready(struct gw_bal_link *l, uint64_t ns)
{
    json_t *answer;
    int err = ask_within(l, json_pack("{s:s}", "op", "ready"), ns, &answer);
    if (err) return err;
    int ready = json_is_true(json_object_get(answer, "ready"));
    json_decref(answer);
    return ready;
}

int gw_bal_link_answers(struct gw_bal_link *l)
{
    struct ucred who = {0};
    socklen_t bytes = sizeof(who);
    getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
    int ready = ask_ready(l, ANSWER_NS);
    if (ready == -ETIMEDOUT)
        return gw_error(
            ready, "the data plane, process %d, does not answer, and forwards nothing; end it if it stays so",
            (int)who.pid);
    return ready < 0 ? ready : 0;
}

int gw_bal_link_start(struct gw_bal_link *l, const struct gw_bal_global *g, const char *config,
                      int (*stopped)(void))
{
    sigset_t all, mask;
    uint64_t end = gw_deadline(START_NS);
    int settings = settings_fd(g);
    if (settings < 0) return gw_error_errno(-errno, "cannot start the data plane");
    fflush(stdout);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    l->child = fork();
    if (!l->child) become_plane(config, settings, &mask);
    close(settings);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (l->child < 0) {
        l->child = 0;
        return gw_error_errno(-errno, "cannot start the data plane");
    }
    while ((l->fd < 0 && gw_bal_link_open(l, g->run_dir)) || ask_ready(l, ASK_NS) < 1) {
        if (gw_bal_link_ended(l)) return gw_error(-ECHILD, "the data plane has ended");
        if (stopped()) return gw_error(-EINTR, "interrupted");
        if (gw_deadline(0) > end) return gw_error(-ETIMEDOUT, "the data plane did not get ready");
        usleep(20000);
    }
    return 0;
}

void gw_bal_link_close(struct gw_bal_link *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

static int ask_within(struct gw_bal_link *l, json_t *question, uint64_t ns, json_t **answer)
{
    *answer = NULL;
    uint64_t end = gw_deadline(ns);
    int err = l->fd < 0 ? -ENOTCONN : question ? gw_bal_send(l->fd, question, end) : -ENOMEM;
    json_decref(question);
    if (!err) err = gw_bal_receive(l->fd, answer, end);
    if (err) {
        gw_bal_link_close(l);
        return gw_error_errno(err, "the data plane");
    }
    const char *why = json_string_value(json_object_get(*answer, "error"));
    if (!why) return 0;
    err = gw_error(json_is_true(json_object_get(*answer, "retry")) ? -EAGAIN : -EREMOTEIO,
                   "the data plane: %s", why);
    json_decref(*answer);
    *answer = NULL;
    return err;
}

int gw_bal_link_ask(struct gw_bal_link *l, json_t *question, json_t **answer)
{
    return ask_within(l, question, ASK_NS, answer);
}
