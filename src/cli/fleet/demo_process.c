/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of `gpuwire fleet demo`: how they start, and that each of them ends. */
#include "src/cli/fleet/demo_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"

enum { PROCESS_NONE = 127, PROCESS_PATIENCE_MS = 3000, PROCESS_PORTS = 8 };

/* ---- the folder */

int gw_demo_folder_make(char folder[DEMO_PATH])
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(folder, DEMO_PATH, "%s/gpuwire-fleet-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n > 0 && n < DEMO_PATH && mkdtemp(folder)) return 0;
    folder[0] = 0;
    return gw_error(-EINVAL, "TMPDIR (%s): no folder for the demo's files can be made there",
                    tmp ? tmp : "/tmp");
}

static int folder_remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    remove(path);
    return 0;
}

void gw_demo_folder_remove(const char *folder)
{
    if (folder[0]) nftw(folder, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- ports */

static int port_bind(int fd, uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) || getsockname(fd, (struct sockaddr *)&at, &bytes))
        return gw_error_errno(-errno, "a port of 127.0.0.1");
    *port = ntohs(at.sin_port);
    return 0;
}

/* All are open until the last is found, so that they differ. */
int gw_demo_ports(uint16_t *port, int count)
{
    int fd[PROCESS_PORTS], open = 0, err = 0;
    if (count > PROCESS_PORTS) return gw_error(-EINVAL, "%d ports are too many", count);
    for (; !err && open < count; open++) {
        fd[open] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        err = port_bind(fd[open], &port[open]);
    }
    while (open--)
        if (fd[open] >= 0) close(fd[open]);
    return err;
}

bool gw_demo_port_answers(uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answers = fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at));
    if (fd >= 0) close(fd);
    return answers;
}

/* ---- processes */

static void process_log(const char *folder, const char *name, char path[DEMO_PATH + 32])
{
    snprintf(path, DEMO_PATH + 32, "%s/%s.log", folder, name);
}

/* `mask` is the signal mask to be the program's: until then it gets no signal. */
static void process_become(pid_t demo, const char *const *argv, int log, const sigset_t *mask)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* however the demo ends, this ends too */
    setpgid(0, 0);                    /* the terminal's Ctrl-C is for the demo, which ends the others */
    if (getppid() != demo) _exit(PROCESS_NONE);
    for (unsigned i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) signal(caught[i], SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    const char *program = strcmp(argv[0], "gpuwire") ? argv[0] : "/proc/self/exe";
    execvp(program, (char *const *)argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(PROCESS_NONE);
}

int gw_demo_process_start(struct gw_demo_process *p, const char *folder, const char *name,
                          const char *const *argv)
{
    char path[DEMO_PATH + 32];
    sigset_t all, mask;
    pid_t demo = getpid();
    snprintf(p->name, sizeof(p->name), "%s", name);
    process_log(folder, name, path);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) return gw_error_errno(-errno, "%s", path);
    fflush(stdout);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    p->pid = fork();
    if (!p->pid) process_become(demo, argv, log, &mask);
    int err = p->pid < 0 ? gw_error_errno(-errno, "%s cannot be started", name) : 0;
    if (err) p->pid = 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(log);
    return err;
}

static void process_last_line(const struct gw_demo_process *p, const char *folder, char *line, int size)
{
    char path[DEMO_PATH + 32];
    process_log(folder, p->name, path);
    snprintf(line, (size_t)size, "it said nothing");
    FILE *f = fopen(path, "re");
    while (f && fgets(line, size, f)) {
    }
    line[strcspn(line, "\n")] = 0;
    if (f) fclose(f);
}

bool gw_demo_process_lives(struct gw_demo_process *p, const char *folder)
{
    char line[512];
    int status;
    if (p->pid && waitpid(p->pid, &status, WNOHANG) != p->pid) return true;
    p->pid = 0;
    process_last_line(p, folder, line, sizeof(line));
    gw_error(-ECHILD, "%s has ended: %s", p->name, line);
    return false;
}

void gw_demo_process_kill(struct gw_demo_process *p)
{
    if (!p->pid) return;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
}

void gw_demo_process_end(struct gw_demo_process *p)
{
    if (!p->pid) return;
    kill(p->pid, SIGTERM);
    for (int ms = 0; ms < PROCESS_PATIENCE_MS; ms += 10) {
        if (waitpid(p->pid, NULL, WNOHANG) == p->pid) {
            p->pid = 0;
            return;
        }
        usleep(10000);
    }
    gw_demo_process_kill(p);
}
