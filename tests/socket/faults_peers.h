/* SPDX-License-Identifier: Apache-2.0 */
/* Peers in processes of their own, each with a NIC at an address of its own, and sockets of a set that talk
 * to them. */
#ifndef GW_TESTS_SOCKET_FAULTS_PEERS_H
#define GW_TESTS_SOCKET_FAULTS_PEERS_H

#include <sys/prctl.h>
#include <sys/wait.h>

#include <gpuwire/verbs.h>

#include "tests/socket/own_nic.h"
#include "tests/socket/proxy_rig.h"

#define PEERS   2
#define SOCKETS 100
/* A waiting call asks once a second, and the NIC tries for 4.3 s, or is given 2: ten times the longer. */
#define TEN_TIMES (53u * (uint64_t)SECOND)

static struct gw_device *dev;
static struct sockaddr_in at[1 + PEERS], nowhere; /* the test's own, the peers', an unused one */
static pid_t peer[PEERS];
static int orders[PEERS]; /* a peer ends when its end of this is closed */
static struct sockaddr_in here;
static int listener; /* over TCP */

enum { VICTIM, BYSTANDER };

/* ---- peers --------------------------------------------------------------------------------------------- */

/* Says back what is there. Is it open still? */
static bool echo(int s)
{
    uint8_t b[4096];
    int64_t n = gw_sock_recv_thread(net, s, b, sizeof(b), MSG_DONTWAIT, 0);

    if (n == -EAGAIN) return true;
    if (n > 0 && gw_sock_send_thread(net, s, b, (uint64_t)n, 0, soon()) == n) return true;
    gw_sock_close_thread(net, s, soon());
    return false;
}

/* Says back what it hears, until it is told to end. */
static int be_peer(const struct sockaddr_in *own, int ready, int order)
{
    struct gw_sockets_attr attr = {.count = 16, .rbuf = 8192, .wbuf = 8192, .rdma = GW_RDMA_ONLY};
    struct pollfd f[16], ends = {.fd = order, .events = POLLIN};
    int l, n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    own_nic(own, "");
    if (gw_exec_create("cpu", NULL, &exec) || gw_device_open("softnic", exec, &dev) ||
        gw_sockets_create(dev, &attr, &set)) {
        fprintf(stderr, "peer: %s\n", gw_last_error());
        return 1;
    }
    net = gw_sockets_net(set);
    l = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon());
    if (gw_sock_bind_thread(net, l, (const struct sockaddr *)own, sizeof(*own), soon()) ||
        gw_sock_listen_thread(net, l, 8, soon()) || write(ready, "r", 1) != 1)
        return 1;
    for (int i = 0; i < 16; i++) f[i] = (struct pollfd){.fd = i == l ? l : -1, .events = POLLIN};
    while (poll(&ends, 1, 0) == 0) {
        gw_sock_poll_thread(net, f, 16, gw_clock_ns() + 20 * MS);
        for (int i = 0; i < 16; i++)
            if (i != l && f[i].revents && !echo(i)) f[i].fd = -1;
        n = f[l].revents ? gw_sock_accept_thread(net, l, NULL, NULL, 0) : -1;
        if (n >= 0) f[n].fd = n;
    }
    return gw_sockets_destroy(set) || gw_device_close(dev) || gw_exec_destroy(exec);
}

/* Before this process has threads. */
static int start_peers(void)
{
    int ready[2], order[2];
    char c;

    for (int i = 0; i < 1 + PEERS; i++) at[i] = own_addr(1 + (uint32_t)i, 7000);
    nowhere = own_addr(2 + PEERS, 7000);
    for (int i = 0; i < PEERS; i++) {
        if (pipe2(ready, O_CLOEXEC) || pipe2(order, O_CLOEXEC)) return -1;
        peer[i] = fork();
        if (!peer[i]) {
            for (int j = 0; j < i; j++) close(orders[j]);
            close(order[1]);
            _exit(be_peer(&at[1 + i], ready[1], order[0]));
        }
        orders[i] = order[1];
        close(order[0]);
        close(ready[1]);
        if (read(ready[0], &c, 1) != 1) return -1;
        close(ready[0]);
    }
    return 0;
}

static int end_peers(void)
{
    int rc = 0, status;

    for (int i = 0; i < PEERS; i++) {
        kill(peer[i], SIGCONT);
        close(orders[i]);
        if (waitpid(peer[i], &status, 0) != peer[i] || status) rc = -1;
    }
    return rc;
}

/* ---- sockets ------------------------------------------------------------------------------------------- */

static int open_rdma(void)
{
    int s = open_ours(), only = GW_RDMA_ONLY;

    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &only, sizeof(only)), 0);
    return s;
}

static int64_t connect_to(int s, const struct sockaddr_in *to, uint64_t deadline_ns)
{
    return gw_sock_connect_thread(net, s, (const struct sockaddr *)to, sizeof(*to), deadline_ns);
}

static int meet(int who)
{
    int s = open_rdma();

    assert_int_equal(connect_to(s, &at[1 + who], soon()), 0);
    return s;
}

/* A question and its answer. */
static void works(int s)
{
    static uint8_t say;
    uint8_t b[300], heard[300];

    memset(b, ++say, sizeof(b));
    assert_int_equal(send_ours(s, b, sizeof(b)), sizeof(b));
    assert_int_equal(gw_sock_recv_thread(net, s, heard, sizeof(heard), MSG_WAITALL, soon()), sizeof(heard));
    assert_memory_equal(b, heard, sizeof(b));
}

/* Both ends of a TCP connection of this set. */
struct tcp {
    int s[2];
};

static struct tcp join_tcp(void)
{
    struct tcp t = {{open_ours(), -1}};

    assert_int_equal(connect_to(t.s[0], &here, soon()), 0);
    t.s[1] = gw_sock_accept_thread(net, listener, NULL, NULL, soon());
    assert_true(t.s[1] >= 0);
    return t;
}

static void tcp_works(const struct tcp *t)
{
    char b[8];

    for (int way = 0; way < 2; way++) {
        assert_int_equal(send_ours(t->s[way], "to and", 6), 6);
        assert_int_equal(gw_sock_recv_thread(net, t->s[!way], b, 6, MSG_WAITALL, soon()), 6);
    }
}

static void part_tcp(struct tcp *t)
{
    close_ours(t->s[0]);
    close_ours(t->s[1]);
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

static int make(void **state)
{
    struct gw_sockets_attr attr = {.count = SOCKETS, .rbuf = 8192, .wbuf = 8192};

    (void)state;
    own_nic(&at[0], "");
    if (gw_exec_create("cpu", NULL, &exec) || gw_device_open("softnic", exec, &dev) ||
        gw_sockets_create(dev, &attr, &set)) {
        fprintf(stderr, "%s\n", gw_last_error());
        return -1;
    }
    net = gw_sockets_net(set);
    listener = listen_ours(&here, 8);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    close_ours(listener);
    return gw_sockets_destroy(set) || gw_device_close(dev) || gw_exec_destroy(exec);
}

#endif
