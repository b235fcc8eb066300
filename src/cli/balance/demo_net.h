/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts for the demo: network namespaces on one switch, which go when this process ends. */
#ifndef GW_CLI_BALANCE_DEMO_NET_H
#define GW_CLI_BALANCE_DEMO_NET_H

#include <sys/types.h>

#define GW_DEMO_VIP     "10.77.0.100"
#define GW_DEMO_PORT    8080
#define GW_DEMO_WORKERS 3

enum {
    GW_DEMO_SWITCH,
    GW_DEMO_BALANCER,
    GW_DEMO_CLIENT,
    GW_DEMO_WORKER,
    GW_DEMO_HOSTS = GW_DEMO_WORKER + GW_DEMO_WORKERS
};

struct gw_demo_net {
    pid_t keeper[GW_DEMO_HOSTS]; /* a process that does nothing but hold the namespace */
};

/* 0, or a negative errno with the reason in gw_last_error(). */
int gw_demo_net_make(struct gw_demo_net *n);
void gw_demo_net_drop(struct gw_demo_net *n);

/* A child process in that host; 0 in the child, which dies with this process. */
pid_t gw_demo_fork(const struct gw_demo_net *n, int host);
/* The same, of a program that starts others: when it ends they do, too. It must not count on the default actions of signals. */
pid_t gw_demo_fork_all(const struct gw_demo_net *n, int host);
/* Runs the program there to its end: its exit code, -1 if it could not run. */
int gw_demo_run(const struct gw_demo_net *n, int host, const char *const *argv);

#endif
