/* SPDX-License-Identifier: Apache-2.0 */
/* Ports and their listeners: whose they are, at which address, and how many may wait. */
#include <errno.h>

#include "tests/cm/pair.h"

static void a_backlog_is_kept(void **state)
{
    struct cm_id *client[6];
    struct rdma_ucm_event_resp e;

    (void)state;
    net_up(&net, 9, 0);
    net_listener(&net, 0, RDMA_PS_TCP); /* with room for four */
    for (int i = 0; i < 6; i++) {
        client[i] = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
        assert_int_equal(net_connect(client[i], 5, ""), 0);
        net_run(&net, 10000000);
        if (i >= 4) assert_int_equal(net_event(&net, 1, CM_EVENT_REJECTED).status, ROCE_REJ_NO_RESOURCES);
    }
    assert_int_equal(net.ends[0].file.event_count, 4);
    e = net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(e.uid, 500);
    assert_int_equal(net_connect(net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT), 5, ""), 0);
    net_run(&net, 10000000);
    assert_int_equal(net.ends[0].file.event_count, 4);
    net_down(&net);
}

static void ports_are_exclusive(void **state)
{
    struct cm_addr a = net_addr(0, NET_PORT), other = net_addr(1, 5), taken = net_addr(0, 99);
    struct cm_id *id;

    (void)state;
    net_up(&net, 10, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    id = net_id(&net, 0, RDMA_PS_TCP, 1);
    assert_int_equal(cm_bind(id, &a), -EADDRINUSE);
    assert_int_equal(cm_bind(id, &taken), -EADDRINUSE);
    assert_int_equal(cm_bind(id, &other), -ENODEV);
    a.port = 0;
    assert_int_equal(cm_bind(id, &a), 0);
    assert_true(id->src.port >= 32768);
    id = net_id(&net, 0, RDMA_PS_UDP, 1); /* another space */
    a.port = NET_PORT;
    assert_int_equal(cm_bind(id, &a), 0);
    net_down(&net);
}

/* Who is told the id's address can come back to it from another host. */
static void a_loopback_address_becomes_the_nics(void **state)
{
    struct cm_addr a = net_addr(0, NET_PORT), own = a;
    const uint8_t loopback[4] = {127, 0, 0, 1};
    struct cm_id *id;

    (void)state;
    net_up(&net, 15, 0);
    memcpy(a.gid + 12, loopback, sizeof(loopback));
    id = net_id(&net, 0, RDMA_PS_TCP, 1);
    assert_int_equal(cm_bind(id, &a), 0);
    assert_memory_equal(id->src.gid, own.gid, sizeof(own.gid));
    assert_int_equal(id->src.port, NET_PORT);
    net_down(&net);
}

static void shared_ports_have_one_listener(void **state)
{
    struct cm_addr a = net_addr(0, NET_PORT);
    struct cm_id *one, *two;

    (void)state;
    net_up(&net, 11, 0);
    one = net_id(&net, 0, RDMA_PS_TCP, 1);
    two = net_id(&net, 0, RDMA_PS_TCP, 2);
    one->reuse = two->reuse = true;
    assert_int_equal(cm_bind(one, &a), 0);
    assert_int_equal(cm_bind(two, &a), 0);
    assert_int_equal(cm_listen(one, 1), 0);
    assert_int_equal(cm_listen(two, 1), -EADDRINUSE);
    cm_destroy(one);
    assert_int_equal(cm_listen(two, 1), 0);
    net_down(&net);
}

/* A peer may be told of a port before its program listens: it asks again, and is not refused at once. */
static void a_port_that_was_just_bound_may_listen_soon(void **state)
{
    (void)state;
    for (int ud = 0; ud < 2; ud++) {
        uint16_t ps = ud ? RDMA_PS_UDP : RDMA_PS_TCP;
        struct cm_addr a = net_addr(0, NET_PORT);
        struct cm_id *server;

        net_up(&net, 16, 0);
        server = net_id(&net, 0, ps, 500);
        assert_int_equal(cm_bind(server, &a), 0);
        assert_int_equal(net_connect(net_resolved(&net, 1, 0, ps, NET_PORT), 5, ""), 0);
        net_run(&net, 10000000);
        assert_int_equal(net.ends[1].file.event_count, 0);
        assert_int_equal(cm_listen(server, 4), 0);
        net_run(&net, 500000000);
        net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
        net_down(&net);
    }
}

/* One that stays as it is does not. */
static void a_port_that_does_not_listen_is_refused(void **state)
{
    struct cm_addr a = net_addr(0, NET_PORT);

    (void)state;
    net_up(&net, 17, 0);
    assert_int_equal(cm_bind(net_id(&net, 0, RDMA_PS_TCP, 500), &a), 0);
    net_run(&net, 1000000000);
    assert_int_equal(net_connect(net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT), 5, ""), 0);
    net_run(&net, 10000000);
    assert_int_equal(net_event(&net, 1, CM_EVENT_REJECTED).status, ROCE_REJ_INVALID_SERVICE_ID);
    net_down(&net);
}

static void a_destroyed_id_gives_its_port_back_at_once(void **state)
{
    struct cm_addr a = net_addr(1, 4000);
    struct pair p;

    (void)state;
    net_up(&net, 15, 0);
    p = connect_pair(&net);
    assert_int_equal(cm_port_take(p.client, 4000), 0);
    cm_destroy(p.client); /* it lingers, to tell its peer */
    assert_int_equal(cm_bind(net_id(&net, 1, RDMA_PS_TCP, 601), &a), 0);
    net_down(&net);
}

/* A connection from end 1 to this address of end 0, or what end 1 is told instead. */
static uint32_t knock(struct net *n, unsigned nic, uint16_t port)
{
    struct cm_id *id = net_resolved(n, 1, nic, RDMA_PS_TCP, port);
    struct rdma_ucm_event_resp e;

    assert_ptr_equal(id->nic, &n->ends[1].cm.nics[nic >= NET_SECOND]);
    assert_int_equal(net_connect(id, 1, "x"), 0);
    for (int i = 0; i < 1000 && !n->ends[0].file.event_count && !n->ends[1].file.event_count; i++)
        net_run(n, 1000000);
    if (n->ends[1].file.event_count) {
        assert_true(cm_event_take(&n->ends[1].file, &e));
    } else {
        struct cm_id *child;

        e = net_event(n, 0, CM_EVENT_CONNECT_REQUEST);
        child = cm_id_find(&n->ends[0].cm, &n->ends[0].file, e.id);
        assert_memory_equal(child->src.gid, n->ends[0].cm.nics[nic >= NET_SECOND].gid, 16);
        assert_memory_equal(child->peer, id->nic->gid, 16);
        assert_int_equal(child->local_id >> 24, child->nic->slot);
        cm_destroy(child);
        net_event(n, 1, CM_EVENT_REJECTED);
    }
    cm_destroy(id);
    return e.event;
}

/* As on Linux: servers listen for each family, and say that the IPv6 one is for IPv6 alone. */
static void families_share_a_port(void **state)
{
    struct cm_addr v4 = net_addr(0, NET_PORT), v6 = {.family = AF_INET6, .port = NET_PORT};
    struct cm_id *one, *two, *three;

    (void)state;
    net_up(&net, 16, 0);
    memset(v4.gid + 12, 0, 4);
    one = net_id(&net, 0, RDMA_PS_TCP, 1);
    two = net_id(&net, 0, RDMA_PS_TCP, 2);
    three = net_id(&net, 0, RDMA_PS_TCP, 3);
    assert_int_equal(cm_bind(one, &v4), 0);
    assert_int_equal(cm_bind(two, &v6), -EADDRINUSE);
    two->afonly = true;
    assert_int_equal(cm_bind(two, &v6), 0);
    assert_int_equal(cm_bind(three, &v4), -EADDRINUSE);
    three->afonly = true;
    assert_int_equal(cm_bind(three, &v6), -EADDRINUSE);
    assert_int_equal(cm_listen(two, 4), 0);
    assert_int_equal(cm_listen(one, 4), 0);
    assert_int_equal(knock(&net, 0, NET_PORT), CM_EVENT_CONNECT_REQUEST);
    cm_destroy(one);
    assert_int_equal(knock(&net, 0, NET_PORT), CM_EVENT_REJECTED);
    three->reuse = true;
    assert_int_equal(cm_bind(three, &v4), 0);
    /* The IPv6 one did not ask for reuse, and has no part in it. */
    one = net_id(&net, 0, RDMA_PS_TCP, 4);
    assert_int_equal(cm_bind(one, &v4), -EADDRINUSE);
    one->reuse = true;
    assert_int_equal(cm_bind(one, &v4), 0);
    net_down(&net);
}

/* A listener at one address is not met at the other. A listener at all addresses is met at both. */
static void listeners_are_met_where_they_listen(void **state)
{
    struct cm_addr any = net_addr(0, 20), first = net_addr(0, 21), second = net_addr(NET_SECOND, 21);
    struct cm_id *a, *b, *c;

    (void)state;
    net_up(&net, 31, 0);
    memset(any.gid + 12, 0, 4);
    a = net_id(&net, 0, RDMA_PS_TCP, 1);
    b = net_id(&net, 0, RDMA_PS_TCP, 2);
    c = net_id(&net, 0, RDMA_PS_TCP, 3);
    assert_int_equal(cm_bind(a, &any), 0);
    assert_int_equal(cm_listen(a, 4), 0);
    assert_int_equal(cm_bind(b, &second), 0);
    assert_int_equal(cm_listen(b, 4), 0);
    assert_int_equal(knock(&net, 0, 20), CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(knock(&net, NET_SECOND, 20), CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(knock(&net, 0, 21), CM_EVENT_REJECTED);
    assert_int_equal(knock(&net, NET_SECOND, 21), CM_EVENT_CONNECT_REQUEST);
    /* The port is free at the first one's address. */
    assert_int_equal(cm_bind(c, &first), 0);
    assert_int_equal(cm_listen(c, 4), 0);
    assert_int_equal(knock(&net, 0, 21), CM_EVENT_CONNECT_REQUEST);
    net_down(&net);
}

/* All addresses, or none: what one of them refuses leaves nothing taken at the others. */
static void a_port_at_all_addresses(void **state)
{
    struct cm_addr any = net_addr(0, 98), first = net_addr(0, 98), second = net_addr(NET_SECOND, 98);
    struct cm_id *a, *b;

    (void)state;
    net_up(&net, 32, 0);
    memset(any.gid + 12, 0, 4);
    a = net_id(&net, 0, RDMA_PS_TCP, 1);
    b = net_id(&net, 0, RDMA_PS_TCP, 2);
    assert_int_equal(cm_bind(a, &any), -EADDRINUSE); /* another process has it at the second */
    assert_int_equal(net.ends[0].claims, 0);
    assert_int_equal(cm_bind(b, &second), -EADDRINUSE);
    assert_int_equal(cm_bind(b, &first), 0);
    any.port = 97;
    assert_int_equal(cm_bind(a, &any), 0);
    assert_int_equal(net.ends[0].claims, 3);
    cm_destroy(b);
    second.port = 97;
    b = net_id(&net, 0, RDMA_PS_TCP, 2);
    assert_int_equal(cm_bind(b, &second), -EADDRINUSE);
    cm_destroy(a);
    assert_int_equal(cm_bind(b, &second), 0);
    net_down(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backlog_is_kept),
        cmocka_unit_test(ports_are_exclusive),
        cmocka_unit_test(a_loopback_address_becomes_the_nics),
        cmocka_unit_test(shared_ports_have_one_listener),
        cmocka_unit_test(a_port_that_was_just_bound_may_listen_soon),
        cmocka_unit_test(a_port_that_does_not_listen_is_refused),
        cmocka_unit_test(a_destroyed_id_gives_its_port_back_at_once),
        cmocka_unit_test(families_share_a_port),
        cmocka_unit_test(listeners_are_met_where_they_listen),
        cmocka_unit_test(a_port_at_all_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
