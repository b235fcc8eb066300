/* SPDX-License-Identifier: Apache-2.0 */
/* MISC_CHECK: a program of the administrator's. Its end says how the worker is. It runs as the user that the
 * file names, in a group of processes of its own, with nothing of ours but a path to search. What is left of
 * the group ends with it. A user who could change the program, or the path to it, could run anything as the
 * script's user: so only root may. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/balance/control/probe_impl.h"
#include "src/balance/control/probe_script.h"

#define SCRIPT_WORDS 32
#define SCRIPT_LINKS 40
#define NO_USER      SIGUSR1 /* how a child ends that cannot begin */
#define NO_EXEC      SIGUSR2

/* ---- is it only root's? ---- */

static int script_wrong(const char *path, const char *what, char *why, size_t size)
{
    snprintf(why, size, "%.64s: %s", path, what);
    return -1;
}

/* Checks what `at` is, and that only root may change it. -1: no. */
static int script_step(const char *at, struct stat *st, char *why, size_t size)
{
    if (lstat(at, st)) return script_wrong(at, strerror(errno), why, size);
    if (st->st_uid) return script_wrong(at, "it is not root's; chown it", why, size);
    if (!S_ISLNK(st->st_mode) && st->st_mode & 022)
        return script_wrong(at, "others than root may write it; chmod go-w", why, size);
    return 0;
}

/* The link at `at` is followed: its target stands before the rest of the path. */
static int script_follow(char *at, char *rest, char *why, size_t size)
{
    char target[PATH_MAX], joined[2 * PATH_MAX + 2];
    ssize_t n = readlink(at, target, sizeof(target) - 1);
    if (n < 0) return script_wrong(at, strerror(errno), why, size);
    target[n] = 0;
    snprintf(joined, sizeof(joined), "%s/%s", target, rest);
    if (strlen(joined) >= PATH_MAX) return script_wrong(at, "the path is too long", why, size);
    strcpy(rest, joined);
    if (target[0] == '/')
        at[0] = 0;
    else
        *strrchr(at, '/') = 0;
    return 0;
}

/* Each folder, link and file on the way is looked at. */
static int script_check_way(const char *path, char *why, size_t size)
{
    char at[PATH_MAX] = "", rest[PATH_MAX], name[NAME_MAX + 1];
    struct stat st;
    int links = 0;
    if (script_step("/", &st, why, size)) return -1;
    snprintf(rest, sizeof(rest), "%s", path);
    for (;;) {
        size_t skip = strspn(rest, "/"), n = strcspn(rest + skip, "/");
        if (!n) break;
        if (n > NAME_MAX || strlen(at) + n + 2 > sizeof(at))
            return script_wrong(path, "it is too long", why, size);
        snprintf(name, sizeof(name), "%.*s", (int)n, rest + skip);
        memmove(rest, rest + skip + n, strlen(rest + skip + n) + 1);
        if (!strcmp(name, ".")) continue;
        if (!strcmp(name, "..")) {
            if (at[0]) *strrchr(at, '/') = 0;
            continue;
        }
        strcat(strcat(at, "/"), name);
        if (script_step(at, &st, why, size)) return -1;
        if (!S_ISLNK(st.st_mode)) continue;
        if (++links > SCRIPT_LINKS) return script_wrong(path, "too many links", why, size);
        if (script_follow(at, rest, why, size)) return -1;
    }
    if (S_ISREG(st.st_mode) && st.st_mode & 0111) return 0;
    return script_wrong(path, "it is no program; chmod +x", why, size);
}

/* ---- running it ---- */

static pid_t script_dying[GW_BAL_SCRIPTS]; /* killed, and not yet gone */
static unsigned script_running;

bool gw_bal_script_room(void)
{
    unsigned dying = 0;
    for (unsigned i = 0; i < GW_BAL_SCRIPTS; i++) {
        if (script_dying[i] && waitpid(script_dying[i], NULL, WNOHANG)) script_dying[i] = 0;
        dying += script_dying[i] != 0;
    }
    return script_running + dying < GW_BAL_SCRIPTS;
}

/* The script could not begin: no status of its own says that, but a signal. */
static void script_fails(int how)
{
    signal(how, SIG_DFL);
    raise(how);
    _exit(1);
}

/* The child. Other threads had locks when it was made, so it calls nothing that takes any. Calls such as
 * setresuid go past the C library, which would tell its other threads. */
static void script_become(const struct gw_bal_ask *a, char **argv)
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *const env[] = {path, NULL};
    sigset_t none;
    gid_t gid = a->gid;
    setsid();
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    syscall(SYS_close_range, 3, ~0u, 0);
    if (geteuid() == 0 && (syscall(SYS_setgroups, 1, &gid) || syscall(SYS_setresgid, gid, gid, gid) ||
                           syscall(SYS_setresuid, a->uid, a->uid, a->uid)))
        script_fails(NO_USER);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing else would end it if we are killed */
    if (chdir("/") == 0) execve(argv[0], argv, env);
    script_fails(NO_EXEC);
}

static int script_start(struct gw_bal_probe *p, char **argv, char *why, size_t size)
{
    sigset_t all, before;
    sigfillset(&all); /* our handlers must not run in the child */
    sigprocmask(SIG_SETMASK, &all, &before);
    p->pid = fork();
    if (!p->pid) script_become(gw_bal_probe_ask(p), argv);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (p->pid < 0) {
        p->pid = 0;
        return gw_bal_probe_fails("no process for the script", errno, why, size);
    }
    script_running++;
    p->fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    return p->fd < 0 ? gw_bal_probe_fails("watching the script", errno, why, size) : 0;
}

static int script_begin(struct gw_bal_probe *p, char *why, size_t size)
{
    char words[GW_BAL_PATH], *argv[SCRIPT_WORDS + 1], *next = words, *word;
    int n = 0;
    snprintf(words, sizeof(words), "%s", gw_bal_probe_ask(p)->path);
    while (n < SCRIPT_WORDS && (word = strsep(&next, " \t")))
        if (*word) argv[n++] = word;
    argv[n] = NULL;
    if (!n || argv[0][0] != '/') return script_wrong(words, "a script's path begins with /", why, size);
    if (script_check_way(argv[0], why, size)) return -1;
    return script_start(p, argv, why, size);
}

/* It has ended, or its time is over. */
static void script_end(struct gw_bal_probe *p)
{
    if (!p->pid) return;
    kill(-p->pid, SIGKILL);
    kill(p->pid, SIGKILL); /* it may not have a group yet */
    script_running--;
    for (unsigned i = 0; !waitpid(p->pid, NULL, WNOHANG) && i < GW_BAL_SCRIPTS; i++)
        if (!script_dying[i]) {
            script_dying[i] = p->pid;
            break;
        }
    p->pid = 0;
}

static int script_run(struct gw_bal_probe *p, char *why, size_t size)
{
    siginfo_t end = {0};
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    /* It stays a zombie until script_end: no other process can have its number before its group is gone. */
    if (waitid(P_PID, (id_t)p->pid, &end, WEXITED | WNOHANG | WNOWAIT))
        return gw_bal_probe_fails("the script", errno, why, size);
    if (!end.si_pid) return 0;
    int status = end.si_code == CLD_EXITED ? end.si_status : -1;
    if (!status) return 1;
    if (a->dynamic && status > 1) {
        p->weight = status - 2;
        return 1;
    }
    if (status < 0 && end.si_status == NO_USER)
        snprintf(why, size, "the script cannot run as user %u; see script_user", a->uid);
    else if (status < 0 && end.si_status == NO_EXEC)
        snprintf(why, size, "the script cannot be run; is its first line right?");
    else if (status < 0)
        snprintf(why, size, "the script was ended by signal %d", end.si_status);
    else
        snprintf(why, size, "the script ended with status %d", status);
    return -1;
}

static short script_waits(const struct gw_bal_probe *p)
{
    (void)p;
    return POLLIN;
}

const struct gw_bal_probe_kind gw_bal_probe_script = {script_begin, script_run, script_waits, script_end,
                                                      NULL};
