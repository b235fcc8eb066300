/* SPDX-License-Identifier: Apache-2.0 */
/* Connections made, refused, lost and ended between two connection managers, also where messages get lost. */
#include <errno.h>

#include "tests/cm/pair.h"

static void a_connection_from_beginning_to_end(void **state)
{
    struct ib_uverbs_qp_attr c, s;
    struct pair p;

    (void)state;
    net_up(&net, 1, 0);
    p = connect_pair(&net);
    assert_int_equal(cm_qp_attr(p.client, IBV_QPS_RTR, &c), 0);
    assert_int_equal(cm_qp_attr(p.server, IBV_QPS_RTS, &s), 0);
    assert_int_equal(c.dest_qp_num, 0x280002);
    assert_int_equal(c.path_mtu, 5);
    /* A message's PSN is the one that its receiver begins to send with. */
    assert_int_equal(c.rq_psn, p.client->psn);
    assert_int_equal(s.sq_psn, p.client->psn);
    assert_memory_equal(c.ah_attr.grh.dgid, net.ends[0].cm.nics[0].gid, 16);
    assert_int_equal(s.max_rd_atomic, 5);
    assert_int_equal(c.max_dest_rd_atomic, 5);
    assert_int_equal(s.retry_cnt, 7);
    assert_int_equal(s.rnr_retry, 6);
    disconnect_pair(&net, &p);
    net_quiet(&net, 0);
    net_quiet(&net, 1);
    net_down(&net);
}

static void loss_delays_and_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct pair p;

        net_up(&net, seed, 3000);
        p = connect_pair(&net);
        net_run(&net, 1000000000);
        net_quiet(&net, 0); /* a message that came twice was told once */
        net_quiet(&net, 1);
        disconnect_pair(&net, &p);
        net_down(&net);
    }
}

static void nobody_listens(void **state)
{
    struct cm_id *client;

    (void)state;
    net_up(&net, 3, 0);
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(client, 5, ""), 0);
    assert_int_equal(net_event(&net, 1, CM_EVENT_REJECTED).status, ROCE_REJ_INVALID_SERVICE_ID);
    assert_int_equal(client->state, CM_ENDED);
    net_down(&net);
}

static void nobody_is_there(void **state)
{
    struct cm_id *client;

    (void)state;
    net_up(&net, 4, 10000);
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(client, 5, ""), 0);
    assert_int_equal((int)net_event(&net, 1, CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
    assert_int_equal(net.ends[1].sent, 1 + CM_RETRIES);
    net_down(&net);
}

static struct cm_id *request(struct net *n, struct cm_id **client)
{
    struct rdma_ucm_event_resp e;

    *client = net_resolved(n, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(*client, 5, "x"), 0);
    e = net_event(n, 0, CM_EVENT_CONNECT_REQUEST);
    return cm_id_find(&n->ends[0].cm, &n->ends[0].file, e.id);
}

static void a_listener_says_no(void **state)
{
    const struct rdma_ucm_reject no = {.private_data_len = 4, .private_data = "busy"};
    struct rdma_ucm_event_resp e;
    struct cm_id *client, *server;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        net_up(&net, seed, seed % 2 ? 0 : 3000);
        net_listener(&net, 0, RDMA_PS_TCP);
        server = request(&net, &client);
        assert_int_equal(cm_reject(server, &no), 0);
        e = net_event(&net, 1, CM_EVENT_REJECTED);
        assert_int_equal(e.status, ROCE_REJ_CONSUMER);
        assert_memory_equal(e.param.conn.private_data, "busy", 4);
        net_down(&net);
    }
}

/* The client gives up while the server thinks: the server's acceptance comes to nothing, and it is told. */
static void the_client_goes_meanwhile(void **state)
{
    struct cm_id *client, *server;

    (void)state;
    net_up(&net, 6, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    server = request(&net, &client);
    net.cut = true; /* its farewell gets lost */
    cm_destroy(client);
    net.cut = false;
    assert_int_equal(net_accept(server, 700, 9, ""), 0);
    assert_int_equal(net_event(&net, 0, CM_EVENT_REJECTED).status, ROCE_REJ_INVALID_COMM_ID);
    net_down(&net);
}

static void the_peer_dies(void **state)
{
    struct pair p;

    (void)state;
    net_up(&net, 7, 0);
    p = connect_pair(&net);
    net.cut = true;
    assert_int_equal(cm_disconnect(p.server), 0);
    assert_int_equal((int)net_event(&net, 0, CM_EVENT_DISCONNECTED).status, -ETIMEDOUT);
    net_event(&net, 0, CM_EVENT_TIMEWAIT_EXIT);
    net_down(&net);
}

/* A program that closes silently: the peer is told all the same, again and again if it must be. */
static void destroying_disconnects(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct pair p;

        net_up(&net, seed, 3000);
        p = connect_pair(&net);
        cm_destroy(p.client);
        net_event(&net, 0, CM_EVENT_DISCONNECTED);
        assert_int_equal(cm_disconnect(p.server), 0);
        net_event(&net, 0, CM_EVENT_TIMEWAIT_EXIT);
        net_run(&net, UINT64_C(100000000000));
        assert_int_equal(net.ends[1].cm.high, 0); /* nothing lingers */
        net_down(&net);
    }
}

/* A process that ends has 700 ms (service.c) for its farewell, after which it is not repeated. Its program
 * may have said the farewell itself, long before, so that the pauses have grown. */
static void a_process_that_ends_is_heard(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct pair p;

        net_up(&net, seed, 0);
        p = connect_pair(&net);
        if (seed % 2) {
            net.cut = true;
            assert_int_equal(cm_disconnect(p.client), 0);
            net_run(&net, UINT64_C(5000000000));
            net.cut = false;
        }
        net.loss = 5000;
        cm_leave(&net.ends[1].cm);
        net_run(&net, 700000000);
        assert_int_equal(p.server->state, CM_DREQ_RCVD);
        net_event(&net, 0, CM_EVENT_DISCONNECTED);
        net_down(&net);
    }
}

/* Their DREQs cross, and so do the answers. Each end's DREP comes when that end has ended already, about a
 * transaction that is over. It is the peer's all the same: there is no warning of a stranger. */
static void both_disconnect_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct pair p;

        net_up(&net, seed, seed % 2 ? 0 : 3000);
        p = connect_pair(&net);
        assert_int_equal(cm_disconnect(p.client), 0);
        assert_int_equal(cm_disconnect(p.server), 0);
        net_event(&net, 0, CM_EVENT_DISCONNECTED);
        net_event(&net, 1, CM_EVENT_DISCONNECTED);
        net_event(&net, 0, CM_EVENT_TIMEWAIT_EXIT);
        net_event(&net, 1, CM_EVENT_TIMEWAIT_EXIT);
        for (unsigned i = 0; i < NET_ENDS; i++) {
            net_quiet(&net, i);
            assert_int_equal(net.ends[i].cm.suspects, 0);
            assert_int_equal(net.ends[i].warnings, 0);
        }
        net_down(&net);
    }
}

static void events_follow_an_id_to_another_channel(void **state)
{
    struct rdma_ucm_event_resp e;
    struct cm_addr none = {0}, a = net_addr(0, NET_PORT);
    struct cm_file other;
    struct cm_id *id;
    uint32_t told = 9;

    (void)state;
    net_up(&net, 12, 0);
    cm_file_init(&other, -1, -1);
    id = net_id(&net, 1, RDMA_PS_TCP, 600);
    assert_int_equal(cm_resolve_addr(id, &none, &a), 0);
    assert_int_equal(cm_migrate(id, &net.ends[1].file, &told), 0); /* to where it is */
    assert_int_equal(net.ends[1].file.event_count, 1);
    assert_int_equal(cm_migrate(id, &other, &told), 0);
    assert_int_equal(told, 0);
    net_quiet(&net, 1);
    assert_null(cm_id_find(&net.ends[1].cm, &net.ends[1].file, id->handle));
    assert_true(cm_event_take(&other, &e));
    assert_int_equal(e.event, CM_EVENT_ADDR_RESOLVED);
    cm_file_end(&net.ends[1].cm, &other);
    id = net_id(&net, 1, RDMA_PS_TCP, 600);
    assert_int_equal(cm_migrate(id, &other, &told), -EBADF);
    net_down(&net);
}

/* A stranger who guesses its number could take it to another channel, away from the event that points to
 * it. */
static void a_request_is_nobodys_until_it_was_read(void **state)
{
    struct rdma_ucm_event_resp e;
    struct cm_id *listener, *child = NULL;

    (void)state;
    net_up(&net, 14, 0);
    listener = net_listener(&net, 0, RDMA_PS_TCP);
    assert_int_equal(net_connect(net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT), 5, "who"), 0);
    for (int i = 0; i < 1000 && !net.ends[0].file.event_count; i++) net_run(&net, 1000000);
    for (uint32_t i = 0; i < net.ends[0].cm.high; i++)
        if (net.ends[0].cm.ids[i] && net.ends[0].cm.ids[i]->listener == listener)
            child = net.ends[0].cm.ids[i];
    assert_non_null(child);
    assert_null(cm_id_find(&net.ends[0].cm, &net.ends[0].file, child->handle));
    e = net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
    assert_ptr_equal(cm_id_find(&net.ends[0].cm, &net.ends[0].file, e.id), child);
    net_down(&net);
}

static void datagrams_find_their_queue_pair(void **state)
{
    struct rdma_ucm_event_resp e;
    struct cm_id *client, *server;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        net_up(&net, seed, seed % 2 ? 0 : 3000);
        net_listener(&net, 0, RDMA_PS_UDP);
        client = net_resolved(&net, 1, 0, RDMA_PS_UDP, NET_PORT);
        assert_int_equal(net_connect(client, 5, "who"), 0);
        e = net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
        assert_memory_equal(e.param.ud.private_data, "who", 4);
        server = cm_id_find(&net.ends[0].cm, &net.ends[0].file, e.id);
        assert_int_equal(net_accept(server, 700, 0x280002, "me"), 0);
        e = net_event(&net, 1, CM_EVENT_ESTABLISHED);
        assert_int_equal(e.param.ud.qp_num, 0x280002);
        assert_int_equal(e.param.ud.qkey, CM_UDP_QKEY);
        assert_memory_equal(e.param.ud.private_data, "me", 3);
        assert_memory_equal(e.param.ud.ah_attr.grh.dgid, net.ends[0].cm.nics[0].gid, 16);
        net_run(&net, 1000000000);
        net_quiet(&net, 0);
        net_down(&net);
    }
}

/* The client has asked for time, and then its program was ready at once; its word gets lost. */
static void a_lost_ready_to_use_is_asked_for_soon(void **state)
{
    struct rdma_ucm_event_resp e;
    struct cm_id *client, *server;

    (void)state;
    net_up(&net, 15, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(client, 5, "who"), 0);
    e = net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
    server = cm_id_find(&net.ends[0].cm, &net.ends[0].file, e.id);
    assert_int_equal(net_accept(server, 700, 0x280002, "me"), 0);
    net_event(&net, 1, CM_EVENT_CONNECT_RESPONSE);
    net_run(&net, 10 * NET_DELAY);
    net.cut = true;
    assert_int_equal(net_ready(client), 0);
    net.cut = false;
    assert_int_equal(server->state, CM_REP_SENT);
    net_run(&net, UINT64_C(1000000000));
    assert_int_equal(server->state, CM_ESTABLISHED);
    net_event(&net, 0, CM_EVENT_ESTABLISHED);
    net_down(&net);
}

/* A client may take its time, and say so, for minutes; one that is gone is given up. */
static void a_client_that_asks_for_time_gets_it(void **state)
{
    struct rdma_ucm_event_resp e;
    struct cm_id *client, *server;

    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        net_up(&net, 16, 0);
        net_listener(&net, 0, RDMA_PS_TCP);
        client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
        assert_int_equal(net_connect(client, 5, "who"), 0);
        e = net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
        server = cm_id_find(&net.ends[0].cm, &net.ends[0].file, e.id);
        assert_int_equal(net_accept(server, 700, 0x280002, "me"), 0);
        net_event(&net, 1, CM_EVENT_CONNECT_RESPONSE);
        net_run(&net, 10 * NET_DELAY);
        net.cut = gone;
        net_run(&net, UINT64_C(70000000000));
        assert_int_equal(server->state, CM_REP_SENT);
        net_run(&net, UINT64_C(70000000000));
        assert_int_equal(server->state, gone ? CM_ENDED : CM_REP_SENT);
        if (gone) net_event(&net, 0, CM_EVENT_UNREACHABLE);
        net_down(&net);
    }
}

/* A process that is not the peer can say what it likes. */
static void strangers_change_nothing(void **state)
{
    struct rnd rnd = {5};
    struct pair p;
    struct cm_origin stranger = {.slot = SN_NO_SLOT}, peer = stranger;
    uint8_t mad[ROCE_MAD_LEN];

    (void)state;
    net_up(&net, 12, 0);
    p = connect_pair(&net);
    net_gid(7, stranger.gid);
    net_gid(1, peer.gid);
    for (int i = 0; i < 5000; i++) {
        struct roce_cm m = {.attr = (uint16_t)(ROCE_CM_MRA + i % 6), .qpn = p.server->qpn};

        m.local_id = i % 3 ? p.client->local_id : (uint32_t)rnd64(&rnd);
        m.remote_id = p.server->local_id;
        roce_cm_build(mad, &m);
        cm_input(&net.ends[0].cm, net.ends[0].cm.nics[0].gid, &stranger, mad);
        m.local_id = p.client->local_id ^ 1;
        roce_cm_build(mad, &m);
        cm_input(&net.ends[0].cm, net.ends[0].cm.nics[0].gid, &peer, mad);
        if (i % 50 == 0) net_run(&net, 1000000);
    }
    net_run(&net, 1000000000);
    assert_int_equal(p.server->state, CM_ESTABLISHED);
    net_quiet(&net, 0);
    disconnect_pair(&net, &p);
    net_down(&net);
}

/* The request comes once more, after the program has refused it and let go: it is refused again, without
 * it. */
static void a_refusal_is_remembered(void **state)
{
    const struct rdma_ucm_reject no = {.private_data_len = 3, .private_data = "no"};
    struct cm_id *client, *child;
    struct cm_origin from = {.slot = SN_NO_SLOT};
    uint8_t req[ROCE_MAD_LEN];
    uint64_t sent;

    (void)state;
    net_up(&net, 33, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(client, 1, "x"), 0);
    memcpy(req, client->mad, sizeof(req));
    child = cm_id_find(&net.ends[0].cm, &net.ends[0].file, net_event(&net, 0, CM_EVENT_CONNECT_REQUEST).id);
    assert_int_equal(cm_reject(child, &no), 0);
    cm_destroy(child);
    assert_memory_equal(net_event(&net, 1, CM_EVENT_REJECTED).param.conn.private_data, "no", 3);
    for (int i = 0; i < 3; i++) {
        sent = net.ends[0].sent;
        net_gid(1, from.gid);
        cm_input(&net.ends[0].cm, net.ends[0].cm.nics[0].gid, &from, req);
        net_run(&net, 1000000000);
        assert_int_equal(net.ends[0].sent, sent + 1);
        net_quiet(&net, 0);
    }
    net_run(&net, CM_KEEP_NS);
    assert_int_equal(net.ends[0].cm.kept, 0);
    assert_int_equal(net.ends[0].cm.high, 1); /* the listener */
    net_down(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_from_beginning_to_end),
        cmocka_unit_test(loss_delays_and_changes_nothing),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(nobody_is_there),
        cmocka_unit_test(a_listener_says_no),
        cmocka_unit_test(the_client_goes_meanwhile),
        cmocka_unit_test(the_peer_dies),
        cmocka_unit_test(destroying_disconnects),
        cmocka_unit_test(a_process_that_ends_is_heard),
        cmocka_unit_test(both_disconnect_at_once),
        cmocka_unit_test(events_follow_an_id_to_another_channel),
        cmocka_unit_test(a_request_is_nobodys_until_it_was_read),
        cmocka_unit_test(datagrams_find_their_queue_pair),
        cmocka_unit_test(a_lost_ready_to_use_is_asked_for_soon),
        cmocka_unit_test(a_client_that_asks_for_time_gets_it),
        cmocka_unit_test(strangers_change_nothing),
        cmocka_unit_test(a_refusal_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
