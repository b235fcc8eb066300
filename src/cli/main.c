/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} commands[] = {
#ifdef GW_HAVE_SERVE
    {"demo", "a real picture through a worker process, and where the time went", gw_cli_demo},
    {"serve", "serve models to clients that write their inputs by RDMA", gw_cli_serve},
    {"infer", "ask a server for one inference: a picture or tensors", gw_cli_infer},
    {"load", "load a server at levels of concurrency or rate, and report latencies", gw_cli_load},
    {"check", "can a model run here, and if not, which of its nodes cannot", gw_cli_check},
#ifdef GW_HAVE_BALANCE
    {"balance", "spread clients over workers: TCP, UDP and RoCEv2, each connection where it began",
     gw_cli_balance},
#endif
#endif
    {"info", "what works on this machine, what does not, and why", gw_cli_info},
    {"nic", "see into the software NICs that are in use, live", gw_cli_nic},
    {"perf", "measure bandwidth, latency, message rate and posting, from a GPU or CPU threads", gw_cli_perf},
    {"cat", "netcat whose end is a kernel: over TCP, UNIX sockets or RDMA", gw_cli_cat},
    {"hwcheck", "check and measure between two hosts, and write a report to send to us", gw_cli_hwcheck},
    {"run", "run any verbs program on the software NIC", gw_cli_run},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Commands that a build may lack, and the option of CMake that makes them. */
static const struct {
    const char *name, *option;
} optional[] = {{"demo", "GW_SERVE"}, {"serve", "GW_SERVE"}, {"infer", "GW_SERVE"},
                {"load", "GW_SERVE"}, {"check", "GW_SERVE"}, {"balance", "GW_SERVE=ON and GW_BALANCE"}};

int gw_cli_fail(const char *command, const char *what, int err)
{
    fprintf(stderr, "gpuwire %s: %s: %s\n", command, what, strerror(err));
    return 1;
}

static void print_usage(FILE *f)
{
    fprintf(f, "usage: gpuwire COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < COMMANDS; i++) fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].what);
    fprintf(f,
            "\n`gpuwire COMMAND --help` says more about each, `gpuwire --version` which version this is.\n");
}

/* The output has arrived, or the exit code tells: nobody takes half a table for a whole one. */
static int said(int code)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return code;
    int err = errno; /* 0: of an earlier write, which nobody kept */
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (err == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR))
        return 128 + SIGPIPE; /* `| head`: not worth a word */
    fprintf(stderr, "gpuwire: cannot write all of standard output%s%s\n", err ? ": " : "",
            err ? strerror(err) : "");
    return code ? code : 1;
}

static int no_such_command(const char *name)
{
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (!strcmp(name, optional[i].name)) {
            fprintf(stderr, "gpuwire: %s: this gpuwire was built without it; CMake's %s=ON builds it\n", name,
                    optional[i].option);
            return 2;
        }
    fprintf(stderr, "gpuwire: %s: no such command; see `gpuwire --help`\n", name);
    return 2;
}

static int command(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    bool help = !strcmp(argv[1], "help");
    if (!strcmp(argv[1], "--version")) {
        printf("gpuwire %s\n", GW_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (help && argc == 2)) {
        print_usage(stdout);
        return 0;
    }
    if (help) { /* `gpuwire help COMMAND` is `gpuwire COMMAND --help` */
        argv[1] = argv[2];
        argv[2] = "--help";
        argc = 3;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    return no_such_command(argv[1]);
}

int main(int argc, char **argv)
{
    return said(command(argc, argv));
}
