/* SPDX-License-Identifier: Apache-2.0 */
/* Starting ranks on this host, and connecting to the master. */
#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch_impl.h"

int launch_say(int err, const char *what)
{
    fprintf(stderr, "gpuwire app mapreduce: %s: %s\n", what, strerror(-err));
    return err;
}

int launch_listen(struct launch *l, const char *address, uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof(a);

    inet_pton(AF_INET, address, &a.sin_addr);
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->listener < 0 || bind(l->listener, (struct sockaddr *)&a, sizeof(a)) || listen(l->listener, 256) ||
        getsockname(l->listener, (struct sockaddr *)&a, &n))
        return launch_say(-errno, "cannot listen");
    *port = ntohs(a.sin_port);
    if (getrandom(l->cookie, sizeof(l->cookie), 0) != sizeof(l->cookie))
        return launch_say(-EIO, "no random bytes");
    return 0;
}

/* ---- this host's own ----------------------------------------------------------------------------------- */

enum { GRACE_MS = 3000 };

/* A rank has ended: which one? */
static void launch_ended(pid_t *pid, uint32_t n, pid_t gone)
{
    for (uint32_t i = 0; i < n; i++)
        if (pid[i] == gone) pid[i] = 0;
}

/* Rank 0 has ended with this status: its exit code. The master lived in it, so no one else can say why. */
static int launch_code(int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "gpuwire app mapreduce: rank 0 was ended by signal %d (%s)\n", WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    return 1;
}

/* Waits for all ranks, and passes signals on. Ctrl-C at a terminal reaches them by itself. Those that are
 * there long after rank 0 are stopped, or hang: the job went on without them. */
static int launch_wait(pid_t *pid, uint32_t n, int signals)
{
    struct pollfd p = {signals, POLLIN, 0};
    struct signalfd_siginfo s;
    uint32_t left = n;
    int code = 1;

    while (left) {
        int status;
        pid_t gone;

        if (poll(&p, 1, pid[0] ? -1 : GRACE_MS) == 0)
            for (uint32_t i = 0; i < n; i++)
                if (pid[i]) kill(pid[i], SIGKILL);
        if (!p.revents || read(signals, &s, sizeof(s)) != sizeof(s)) continue;
        if (s.ssi_signo != SIGCHLD && s.ssi_code <= 0 && pid[0]) kill(pid[0], SIGTERM);
        while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
            left--;
            if (gone == pid[0]) code = launch_code(status);
            launch_ended(pid, n, gone);
        }
    }
    return code;
}

int launch_local(uint32_t workers, struct launch *l, int *exit_code)
{
    pid_t pid[LAUNCH_MAX], parent = getpid();
    sigset_t set, old;
    uint16_t port;
    int err = launch_listen(l, "127.0.0.1", &port), signals;

    if (err) return err;
    l->ranks = workers;
    snprintf(l->master, sizeof(l->master), "127.0.0.1 %u\n", port);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    for (uint32_t i = 0; i < workers; i++) {
        pid[i] = fork();
        if (pid[i] < 0) return launch_say(-errno, "cannot start a worker");
        if (pid[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(1);
        sigprocmask(SIG_SETMASK, &old, NULL);
        close(signals);
        l->rank = l->local = i;
        if (i) {
            close(l->listener);
            l->listener = -1;
            signal(SIGINT, SIG_IGN); /* rank 0 gets it, too, and ends the others */
            signal(SIGTERM, SIG_DFL);
        }
        return 1;
    }
    close(l->listener);
    *exit_code = launch_wait(pid, workers, signals);
    close(signals);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return 0;
}

/* ---- the master ---------------------------------------------------------------------------------------- */

static int connect_to(const char *address, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct pollfd p = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), POLLOUT, 0};
    int err = 0, flags = 0;
    socklen_t n = sizeof(err);

    if (p.fd < 0) return -errno;
    if (inet_pton(AF_INET, address, &a.sin_addr) != 1) err = -EINVAL;
    if (!err && connect(p.fd, (struct sockaddr *)&a, sizeof(a)) && errno != EINPROGRESS) err = -errno;
    if (!err && poll(&p, 1, 5000) != 1) err = -ETIMEDOUT;
    if (!err && (getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &flags, &n) || flags)) err = -(flags ? flags : errno);
    if (err) {
        close(p.fd);
        return err;
    }
    launch_blocking(p.fd);
    return p.fd;
}

int launch_connect(const struct launch *l)
{
    char text[sizeof(l->master)], *line, *rest = NULL;
    int fd = -ENOENT;

    memcpy(text, l->master, sizeof(text));
    for (line = strtok_r(text, "\n", &rest); line && fd < 0; line = strtok_r(NULL, "\n", &rest)) {
        char address[64];
        unsigned port;

        if (sscanf(line, "%63s %u", address, &port) == 2) fd = connect_to(address, (uint16_t)port);
    }
    return fd < 0 ? launch_say(fd, "cannot reach rank 0") : fd;
}
