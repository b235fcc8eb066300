/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify, without a command: two memcacheds, people who do not exist, the server, and a short
 * load. */
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/server.h"

static const char demo_call[] = "app faceverify demo";

enum { DEMO_MEMCACHEDS = 2 };

static const char demo_usage[] =
    "usage: gpuwire app faceverify demo [OPTION...]\n\n"
    "Starts two memcacheds, enrols people who do not exist, starts the server, and sends it requests.\n\n"
    "      --exec auto|cpu|gpu  where the kernel runs (default: auto)\n"
    "      --seconds S          how long the load takes (default: 3)\n"
    "  -h, --help               this text\n";

static const struct option demo_options[] = {
    {"exec", 1, NULL, 'e'}, {"seconds", 1, NULL, 's'}, {"help", 0, NULL, 'h'}, {0}};

struct demo {
    const char *exec, *seconds;
    pid_t pid[DEMO_MEMCACHEDS];
    char list[64]; /* HOST:PORT,HOST:PORT */
    struct face_server *server;
};

/* ---- memcached ----------------------------------------------------------------------------------------- */

/* A free port, of the system's choice. 0: there is none. */
static uint16_t demo_free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && !bind(fd, (struct sockaddr *)&addr, len) &&
              !getsockname(fd, (struct sockaddr *)&addr, &len);

    if (fd >= 0) close(fd);
    return ok ? ntohs(addr.sin_port) : 0;
}

static bool demo_connects(uint16_t port)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && !connect(fd, (struct sockaddr *)&addr, sizeof(addr));

    if (fd >= 0) close(fd);
    return ok;
}

/* The child: becomes memcached, and ends with us. 127: it is not installed. */
static void demo_become_memcached(const char *port, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_IGN); /* Ctrl-C is for us, and we end it when the server has ended */
    execlp("memcached", "memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "64",
           geteuid() ? (char *)NULL : "-u", getpwnam("nobody") ? "nobody" : "root", (char *)NULL);
    _exit(127);
}

static int demo_memcached(struct demo *d, int i)
{
    uint16_t port = demo_free_port();
    pid_t parent = getpid();
    char text[8];
    int status;

    snprintf(text, sizeof(text), "%u", port);
    d->pid[i] = fork();
    if (!d->pid[i]) demo_become_memcached(text, parent);
    if (d->pid[i] < 0) return gw_fail(demo_call, "cannot start a process: %s", strerror(errno));
    snprintf(d->list + strlen(d->list), sizeof(d->list) - strlen(d->list), "%s127.0.0.1:%u", i ? "," : "",
             port);
    for (int tries = 0; tries < 500 && !gw_interrupted(); tries++) {
        if (demo_connects(port)) return 0;
        if (waitpid(d->pid[i], &status, WNOHANG) == d->pid[i]) {
            d->pid[i] = 0;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                return gw_fail(demo_call,
                               "memcached is not installed; `apt-get install memcached` does that");
            return gw_fail(demo_call, "memcached ends at once");
        }
        usleep(10000);
    }
    return gw_interrupted() ? GW_EXIT_INTERRUPTED : gw_fail(demo_call, "memcached does not answer");
}

/* ---- the steps ----------------------------------------------------------------------------------------- */

/* Another subcommand, in this process. */
static int demo_run(int (*command)(int, char **), const char *const *words)
{
    char *argv[16];
    int argc = 0;

    for (; words[argc]; argc++) argv[argc] = (char *)(uintptr_t)words[argc];
    argv[argc] = NULL;
    optind = 0; /* glibc's getopt starts again */
    return command(argc, argv);
}

static int demo_serve(struct demo *d)
{
    struct face_server_opts o;
    int err;

    face_server_defaults(&o);
    o.exec = d->exec;
    err = mc_servers_parse(demo_call, d->list, &o.memcached);
    if (!err) err = gw_option_listen(demo_call, "0", 0, &o.addr, &o.addr_len);
    if (err) return err;
    err = face_server_start(&o, &d->server);
    if (err) return gw_fail(demo_call, "%s", gw_last_error());
    printf("the server listens on %s, with %u blocks on %s\n", face_server_name(d->server),
           face_server_blocks(d->server), face_server_exec(d->server));
    return 0;
}

static int demo_steps(struct demo *d)
{
    const char *enrol[] = {"enrol", "--memcached", d->list, "--drawn", "--persons", "16", NULL};
    const char *load[] = {"load",      NULL, "--connections", "8",  "--pipeline", "4",
                          "--unknown", "50", "--persons",     "16", "--seconds",  d->seconds,
                          NULL};
    char where[32];
    int err = 0;

    for (int i = 0; i < DEMO_MEMCACHEDS && !err; i++) err = demo_memcached(d, i);
    if (err) return err;
    printf("two memcacheds: %s\n", d->list);
    fflush(stdout);
    err = demo_run(face_cmd_enrol, enrol);
    if (!err) err = demo_serve(d);
    if (err || gw_interrupted()) return err;
    fflush(stdout);
    snprintf(where, sizeof(where), "127.0.0.1:%u", face_server_port(d->server));
    load[1] = where;
    err = demo_run(face_cmd_load, load);
    if (face_server_halt(d->server)) err = gw_fail(demo_call, "%s", gw_last_error());
    return err;
}

int face_cmd_demo(int argc, char **argv)
{
    struct demo d = {.exec = "auto", .seconds = "3"};
    double seconds;
    int c, err = 0;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", demo_options, NULL)) >= 0) {
        switch (c) {
        case 'e': d.exec = optarg; break;
        case 's': d.seconds = optarg; break;
        case 'h': return fputs(demo_usage, stdout), GW_EXIT_OK;
        default: return gw_option_wrong(demo_call, argv, c);
        }
    }
    if (optind < argc) return gw_usage_error(demo_call, "%s: not understood", argv[optind]);
    err = gw_option_word(demo_call, "--exec", d.exec, "auto cpu gpu", NULL);
    if (!err) err = gw_option_real(demo_call, "--seconds", d.seconds, 0.1, 3600, &seconds);
    if (err) return err;
    gw_catch_signals();
    err = demo_steps(&d);
    face_server_stop(d.server);
    for (int i = 0; i < DEMO_MEMCACHEDS; i++) {
        if (d.pid[i] <= 0) continue;
        kill(d.pid[i], SIGKILL);
        waitpid(d.pid[i], NULL, 0);
    }
    return gw_exit_code(err);
}
