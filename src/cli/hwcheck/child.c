/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a program for hwcheck, and hears its output within a deadline. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/cli/hwcheck/hwcheck.h"
#include "src/cli/options.h"

enum { MOST = 256 << 10 };

static void hwcheck_child_become(const char *const *argv, int in, int out, int err, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* what it starts ends with it; Ctrl-C reaches it through us */
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    if (getppid() == parent) execvp(argv[0], (char *const *)argv);
    _exit(127);
}

int child_start(struct child *c, const char *const *argv)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, err = 0; /* its standard input, output and error */
    pid_t parent = getpid();

    memset(c, 0, sizeof(*c));
    c->in = c->fd[0] = c->fd[1] = -1;
    for (int i = 0; i < 2; i++)
        if (!(c->said[i] = calloc(1, MOST + 1))) err = -ENOMEM;
    for (int i = 0; !err && i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC)) err = -errno;
    if (!err) c->pid = fork();
    if (!err && !c->pid) hwcheck_child_become(argv, pipes[0][0], pipes[1][1], pipes[2][1], parent);
    if (c->pid > 0) setpgid(c->pid, c->pid); /* both do, because either may come first */
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    c->in = pipes[0][1];
    c->fd[0] = pipes[1][0];
    c->fd[1] = pipes[2][0];
    return err ? err : c->pid < 0 ? -EAGAIN : 0;
}

static void end_input(struct child *c)
{
    if (c->in >= 0) close(c->in);
    c->in = -1;
}

/* Takes what has come; what is too much is read and dropped. false: nothing came before the deadline. */
static bool hwcheck_child_take(struct child *c, uint64_t deadline_ns)
{
    int64_t ready = gw_wait_fds(c->fd, 2, deadline_ns);
    char rest[4096];

    for (int i = 0; i < 2; i++) {
        size_t room = MOST - c->len[i];
        ssize_t n;

        if (ready <= 0 || !(ready >> i & 1)) continue;
        n = read(c->fd[i], room ? c->said[i] + c->len[i] : rest, room ? room : sizeof(rest));
        if (n > 0) {
            c->len[i] += room ? (size_t)n : 0;
        } else if (n == 0 || errno != EINTR) {
            close(c->fd[i]);
            c->fd[i] = -1;
        }
    }
    return ready > 0;
}

static bool silent(const struct child *c)
{
    return c->fd[0] < 0 && c->fd[1] < 0;
}

bool child_says(struct child *c, const char *text, uint64_t deadline_ns)
{
    while (!strstr(c->said[1], text)) {
        uint64_t slice = gw_deadline(100000000);

        if (silent(c) || gw_clock_ns() >= deadline_ns || gw_interrupted()) return false;
        hwcheck_child_take(c, slice < deadline_ns ? slice : deadline_ns);
    }
    return true;
}

int child_finish(struct child *c, uint64_t deadline_ns)
{
    bool told = false, late = false;
    int status = 0;

    while (!silent(c)) {
        uint64_t slice = gw_deadline(100000000);

        hwcheck_child_take(c, slice < deadline_ns ? slice : deadline_ns);
        if (gw_interrupted() && !told) {
            kill(-c->pid, SIGINT);
            told = true;
            deadline_ns = gw_deadline(5000000000u);
        }
        if (gw_clock_ns() >= deadline_ns) {
            late = true;
            break;
        }
    }
    end_input(c);
    for (int i = 0; waitpid(c->pid, &status, late ? WNOHANG : 0) == 0; i++) {
        if (i == 100) kill(-c->pid, SIGTERM);
        if (i == 200) kill(-c->pid, SIGKILL);
        usleep(20000);
    }
    c->pid = 0;
    if (late) return 124;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_free(struct child *c)
{
    if (c->pid > 0) {
        kill(-c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    end_input(c);
    for (int i = 0; i < 2; i++) {
        if (c->fd[i] >= 0) close(c->fd[i]);
        free(c->said[i]);
    }
    memset(c, 0, sizeof(*c));
    c->in = c->fd[0] = c->fd[1] = -1;
}
