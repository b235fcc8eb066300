/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of tests that make the same calls on the host's sockets and on ours. */
#ifndef GW_TESTS_SOCKET_CONFORMANCE_RIG_H
#define GW_TESTS_SOCKET_CONFORMANCE_RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <gpuwire/socket.h>
#include <gpuwire/verbs.h>

#include "tests/rnd.h"
#include "tests/socket/own_nic.h"

static struct gw_net *net;
static struct sockaddr_storage addr; /* of this host, for ours; port 0 */
static socklen_t addr_len;
static int domain;
static uint64_t seed;
static uint32_t step;

#include "tests/socket/conformance_calls.h"

static void stop(const char *what, int64_t tcp, int64_t ours)
{
    fprintf(stderr, "seed %llu, step %u: %s: TCP %lld, ours %lld (%s)\n", (unsigned long long)seed, step,
            what, (long long)tcp, (long long)ours, ours < 0 ? strerror((int)-ours) : "");
    exit(1);
}

static int64_t same(const char *what, int64_t tcp, int64_t ours)
{
    if (tcp != ours) stop(what, tcp, ours);
    return tcp;
}

/* A name of this host's own that is free: UNIX sockets are given one when they are bound to none. */
static void local_addr(struct sockaddr_storage *a)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};

    memset(a, 0, sizeof(*a));
    if (domain == AF_INET6) {
        memcpy(a, &in6, sizeof(in6));
        return;
    }
    memcpy(a, &in, sizeof(in));
    a->ss_family = (sa_family_t)domain;
}

/* The carriers of our sockets, and where they are: those of the host's own need no NIC. */
static struct gw_device *prepare(const char *over, struct gw_exec *exec, struct gw_sockets_attr *attr)
{
    struct gw_device *dev = NULL;
    struct sockaddr_in own = own_addr(1, 0);

    domain = !strcmp(over, "unix") ? AF_UNIX : !strcmp(over, "rdma6") ? AF_INET6 : AF_INET;
    addr_len = domain == AF_INET    ? sizeof(struct sockaddr_in)
               : domain == AF_INET6 ? sizeof(struct sockaddr_in6)
                                    : sizeof(sa_family_t);
    local_addr(&addr);
    attr->exec = exec;
    if (strncmp(over, "rdma", 4)) return NULL;
    attr->rdma = GW_RDMA_ONLY;
    if (!strcmp(over, "rdma-doorbell")) attr->post_mode = GW_POST_PROXY_DOORBELL;
    if (!strcmp(over, "rdma-post")) attr->post_mode = GW_POST_PROXY_POST;
    own_nic(&own, ",hostile=1");
    if (domain == AF_INET6) setenv("GPUWIRE_NIC", "addr=::1,hostile=1", 1);
    if (domain == AF_INET) ((struct sockaddr_in *)&addr)->sin_addr = own.sin_addr;
    if (gw_device_open("softnic", exec, &dev)) stop(gw_last_error(), 0, 0);
    return dev;
}

/* [OVER [SEED [SCRIPTS]]]: begins, and runs a script for each seed. */
static int compare(int argc, char **argv, struct gw_sockets_attr *attr, void (*begin)(void),
                   void (*script)(void), uint32_t steps)
{
    const char *over = argc > 1 ? argv[1] : "rdma";
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1,
             n = argc > 3 ? strtoull(argv[3], NULL, 0) : 30;
    struct gw_sockets *set;
    struct gw_device *dev;
    struct gw_exec *exec;

    signal(SIGPIPE, SIG_IGN); /* writev knows no MSG_NOSIGNAL */
    if (gw_exec_create("cpu", NULL, &exec)) stop(gw_last_error(), 0, 0);
    dev = prepare(over, exec, attr);
    if (gw_sockets_create(dev, attr, &set)) stop(gw_last_error(), 0, 0);
    net = gw_sockets_net(set);
    begin();
    for (seed = first; seed < first + n; seed++) script();
    printf("%s: %llu scripts of %u calls or more: the same results as the host's\n", over,
           (unsigned long long)n, steps);
    if (gw_sockets_open(set)) {
        fprintf(stderr, "%u sockets are left open\n", gw_sockets_open(set));
        return 1;
    }
    gw_sockets_destroy(set);
    if (dev) gw_device_close(dev);
    gw_exec_destroy(exec);
    return 0;
}

#endif
