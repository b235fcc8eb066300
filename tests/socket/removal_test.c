/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA device is removed: each of its sockets gets an error, and the host's own go on. No device goes
 * here: the program stands before librdmacm, and tells of it by an event of its own.
 */
#include <dlfcn.h>
#include <pthread.h>

#include <rdma/rdma_cma.h>

#include "tests/socket/nic_rig.h"

static struct rdma_cm_event removal;
static struct rdma_cm_id *bound_last, *asked_last; /* by the helper */
static uint32_t due;                               /* the removal is to be told */
static bool silent;                                /* nothing comes of what is asked */

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (!f) abort();
    return f;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ev)
{
    int (*get)(struct rdma_event_channel *, struct rdma_cm_event **);
    void *f = real("rdma_get_cm_event");

    if (gw_ld_acquire_u32(&due)) {
        gw_st_relaxed_u32(&due, 0);
        *ev = &removal;
        return 0;
    }
    memcpy(&get, &f, sizeof(get));
    return get(channel, ev);
}

int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
    int (*ack)(struct rdma_cm_event *);
    void *f = real("rdma_ack_cm_event");

    if (ev == &removal) return 0;
    memcpy(&ack, &f, sizeof(ack));
    return ack(ev);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    int (*bind_addr)(struct rdma_cm_id *, struct sockaddr *);
    void *f = real("rdma_bind_addr");

    bound_last = id;
    memcpy(&bind_addr, &f, sizeof(bind_addr));
    return bind_addr(id, addr);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    int (*resolve)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
    void *f = real("rdma_resolve_addr");

    asked_last = id;
    if (silent) return 0;
    memcpy(&resolve, &f, sizeof(resolve));
    return resolve(id, from, to, ms);
}

/* ---- the tests ----------------------------------------------------------------------------------------- */

static int begin_removal(void **state)
{
    (void)state;
    silent = false;
    return begin_set(8192);
}

static int open_as(int rdma)
{
    int s = open_ours();

    assert_int_equal(gw_sock_setsockopt_thread(net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma)), 0);
    return s;
}

static int listen_as(int rdma, struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int s = open_as(rdma);

    *at = here;
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, s, 4, soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), 0);
    return s;
}

static int connect_to(int s, const struct sockaddr_in *at, uint64_t deadline)
{
    return gw_sock_connect_thread(net, s, (const struct sockaddr *)at, sizeof(*at), deadline);
}

/* The event is told with the next of rdma_cm's: here that no program listens at some port. */
static void remove_device(struct rdma_cm_id *id)
{
    struct sockaddr_in nobody = here;
    bool was = silent;
    int s = open_as(GW_RDMA_ONLY);

    nobody.sin_port = htons(9);
    silent = false;
    removal = (struct rdma_cm_event){.event = RDMA_CM_EVENT_DEVICE_REMOVAL, .id = id};
    gw_st_release_u32(&due, 1);
    assert_true(connect_to(s, &nobody, soon()) < 0);
    silent = was;
    close_ours(s);
    assert_int_equal(gw_ld_relaxed_u32(&due), 0);
}

/* One that listens is down, and what waited there is gone. */
static void test_listening(void **state)
{
    struct sockaddr_in at;
    int l = listen_as(GW_RDMA_ONLY, &at), s = open_as(GW_RDMA_ONLY);
    char b[1];

    (void)state;
    assert_int_equal(connect_to(s, &at, soon()), 0);
    assert_int_equal(await(l, POLLIN), POLLIN);
    remove_device(bound_last);
    assert_true(await(l, 0) & POLLERR);
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, soon()), -ENETDOWN);
    assert_true(recv_ours(s, b, 1) <= 0);
    close_ours(s);
    close_ours(l);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* One that is bound and no more. */
static void test_bound(void **state)
{
    struct sockaddr_in at = here;
    int s = open_as(GW_RDMA_ONLY);

    (void)state;
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)&at, sizeof(at), soon()), 0);
    remove_device(bound_last);
    assert_true(await(s, 0) & POLLERR);
    assert_int_equal(connect_to(s, &at, soon()), -ENETDOWN);
    assert_int_equal(gw_sock_listen_thread(net, s, 1, soon()), -EINVAL);
    close_ours(s);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* One that is being connected; with TCP as another way it goes that one. */
static void test_connecting(void **state)
{
    struct sockaddr_in at;
    int l = listen_as(GW_RDMA_OFF, &at), s = open_as(GW_RDMA_ONLY), t = open_as(GW_RDMA_TRY);

    (void)state;
    silent = true;
    assert_int_equal(connect_to(s, &at, 0), -EINPROGRESS);
    remove_device(asked_last);
    assert_int_equal(connect_to(s, &at, soon()), -ENETDOWN);
    assert_int_equal(connect_to(t, &at, 0), -EINPROGRESS);
    remove_device(asked_last);
    assert_int_equal(await(t, POLLOUT), POLLOUT);
    assert_int_equal(connect_to(t, &at, 0), 0);
    close_ours(t);
    close_ours(s);
    close_ours(l);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* A connection over RDMA is reset. */
static void test_connected(void **state)
{
    struct sockaddr_in at;
    int l = listen_as(GW_RDMA_ONLY, &at), s = open_as(GW_RDMA_ONLY), t;
    char b[1];

    (void)state;
    assert_int_equal(connect_to(s, &at, soon()), 0);
    t = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(t >= 0);
    remove_device(asked_last);
    assert_int_equal(recv_ours(s, b, 1), -ECONNRESET);
    assert_true(recv_ours(t, b, 1) <= 0);
    close_ours(t);
    close_ours(s);
    close_ours(l);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* One that listens at both goes on with TCP. */
static void test_listening_at_both(void **state)
{
    struct sockaddr_in at;
    int l = listen_as(GW_RDMA_TRY, &at), fd, s;

    (void)state;
    remove_device(bound_last);
    fd = connect_host(&at);
    s = gw_sock_accept_thread(net, l, NULL, NULL, soon());
    assert_true(s >= 0);
    close_ours(s);
    close_ours(l);
    close(fd);
    assert_int_equal(gw_sockets_open(set), 0);
}

/* ---- datagrams over RDMA ------------------------------------------------------------------------------- */

static int begin_datagrams(void **state)
{
    struct gw_sockets_attr attr = {
        .count = COUNT, .rbuf = 16384, .wbuf = 16384, .rdma = GW_RDMA_ONLY, .datagrams = 3};

    (void)state;
    silent = false;
    return begin_with(&attr);
}

static int open_datagrams(struct sockaddr_in *at)
{
    int s = gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, 0, soon());
    socklen_t len = sizeof(*at);

    assert_true(s >= 0);
    *at = here;
    assert_int_equal(gw_sock_bind_thread(net, s, (struct sockaddr *)at, sizeof(*at), soon()), 0);
    assert_int_equal(gw_sock_name_thread(net, s, (struct sockaddr *)at, &len), 0);
    return s;
}

struct waiter {
    int s;
    int64_t got;
};

static void *wait_for_one(void *arg)
{
    struct waiter *w = arg;
    char b[16];

    w->got = recv_ours(w->s, b, sizeof(b));
    return NULL;
}

/* Each is told, also one that a thread waits on, after what had arrived; no new ones are made; and they are
 * closed like others. */
static void test_datagrams(void **state)
{
    struct sockaddr_in to, other;
    int s = open_datagrams(&other), t = open_datagrams(&to);
    struct waiter w = {.s = s};
    pthread_t thread;
    char b[16];

    (void)state;
    assert_int_equal(
        gw_sock_sendto_thread(net, s, "before", 6, 0, (struct sockaddr *)&to, sizeof(to), soon()), 6);
    assert_int_equal(await(t, POLLIN), POLLIN);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_one, &w), 0);
    remove_device(bound_last);
    pthread_join(thread, NULL);
    assert_int_equal(w.got, -ECONNRESET);
    assert_int_equal(gw_sock_sendto_thread(net, s, b, 1, 0, (struct sockaddr *)&to, sizeof(to), soon()),
                     -ECONNRESET);
    assert_int_equal(recv_ours(t, b, sizeof(b)), 6);
    assert_int_equal(recv_ours(t, b, sizeof(b)), -ECONNRESET);
    assert_true(await(t, POLLIN) & POLLERR);
    assert_int_equal(gw_sock_open_thread(net, AF_INET, SOCK_DGRAM, 0, soon()), -ENETDOWN);
    assert_int_equal(connect_to(s, &to, soon()), -ENETDOWN);
    close_ours(s);
    close_ours(t);
    assert_int_equal(gw_sockets_open(set), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_listening, begin_removal, finish_set),
        cmocka_unit_test_setup_teardown(test_bound, begin_removal, finish_set),
        cmocka_unit_test_setup_teardown(test_connecting, begin_removal, finish_set),
        cmocka_unit_test_setup_teardown(test_connected, begin_removal, finish_set),
        cmocka_unit_test_setup_teardown(test_listening_at_both, begin_removal, finish_set),
        cmocka_unit_test_setup_teardown(test_datagrams, begin_datagrams, finish_set),
    };

    take_nic();
    return proxy_tests("a device that is removed", tests, sizeof(tests) / sizeof(tests[0]));
}
