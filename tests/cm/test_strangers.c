/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger can say nothing about a connection. And how much of a listener's room
 * a peer can take. The attackers here know more than a real one would: all but one of the numbers that a
 * message has to name. */
#include "softnic/cm/service.h"
#include "tests/cm/pair.h"

static struct cm_origin place(unsigned end, int slot)
{
    struct cm_origin from = {.slot = slot};

    net_gid(end, from.gid);
    return from;
}

static void say(unsigned to, const struct cm_origin *from, const struct roce_cm *m)
{
    uint8_t mad[ROCE_MAD_LEN];

    roce_cm_build(mad, m);
    cm_input(&net.ends[to].cm, net.ends[to].cm.nics[0].gid, from, mad);
}

/* As the server's peer would end the connection. */
static struct roce_cm right_dreq(const struct pair *p)
{
    return (struct roce_cm){.attr = ROCE_CM_DREQ,
                            .tid = 12345,
                            .local_id = p->client->local_id,
                            .remote_id = p->server->local_id,
                            .qpn = p->server->qpn};
}

static void refused(unsigned end, uint64_t suspects, const char *words)
{
    struct end *e = &net.ends[end];

    assert_int_equal(e->cm.suspects, suspects);
    assert_int_equal(e->warnings, 1);
    if (!strstr(e->warning, words)) fail_msg("'%s' does not say '%s'", e->warning, words);
    e->warnings = 0;
    e->cm.said_at = 0;
}

static void still_connected(struct pair *p)
{
    net_run(&net, 1000000000);
    assert_int_equal(p->server->state, CM_ESTABLISHED);
    assert_int_equal(p->client->state, CM_ESTABLISHED);
    net_quiet(&net, 0);
    net_quiet(&net, 1);
}

/* The attack: communication ID 0 is never given out, so it is no wrong one. */
static void a_dreq_names_both_ids_and_the_queue_pair(void **state)
{
    struct cm_origin from;
    struct roce_cm m;
    struct pair p;

    (void)state;
    net_up(&net, 1, 0);
    p = connect_pair(&net);
    from = place(1, SN_NO_SLOT);
    m = right_dreq(&p);
    m.local_id = 0;
    say(0, &from, &m);
    refused(0, 1, "does not name the peer's communication ID");
    m.local_id = p.client->local_id + 1;
    say(0, &from, &m);
    refused(0, 2, "does not name the peer's communication ID");
    m = right_dreq(&p);
    m.qpn ^= 1;
    say(0, &from, &m);
    refused(0, 3, "names another queue pair");
    m = right_dreq(&p);
    from = place(2, SN_NO_SLOT);
    say(0, &from, &m);
    refused(0, 4, "another address");
    still_connected(&p);
    from = place(1, SN_NO_SLOT);
    say(0, &from, &m); /* and the peer may */
    net_event(&net, 0, CM_EVENT_DISCONNECTED);
    net_down(&net);
}

/* All that a process of the host cannot have is the slot of another. */
static void on_one_host_the_process_counts(void **state)
{
    struct cm_origin from;
    struct roce_cm m;
    struct pair p;

    (void)state;
    net_up(&net, 2, 0);
    net.one_host = true;
    p = connect_pair(&net);
    m = right_dreq(&p);
    for (int slot = -1; slot < 256; slot++) {
        from = place(1, slot);
        if (slot != net.ends[1].cm.nics[0].slot) say(0, &from, &m);
    }
    assert_int_equal(net.ends[0].cm.suspects, 256);
    assert_non_null(strstr(net.ends[0].warning, "from another host"));
    still_connected(&p);
    disconnect_pair(&net, &p);
    net_down(&net);
}

static struct cm_id *asking(uint64_t seed, bool one_host)
{
    struct cm_id *client;

    net_up(&net, seed, 0);
    net.one_host = one_host;
    net_listener(&net, 0, RDMA_PS_TCP);
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(client, 0x290001, "hello"), 0);
    net.cut = true; /* the attacker is faster */
    return client;
}

/* Before there is an answer the peer's ID is not known. The first answer has to name the transaction. */
static void an_answer_names_the_transaction(void **state)
{
    static const uint16_t attrs[] = {ROCE_CM_REP, ROCE_CM_MRA,  ROCE_CM_REJ,
                                     ROCE_CM_RTU, ROCE_CM_DREQ, ROCE_CM_DREP};
    struct cm_id *client = asking(3, false);
    struct cm_origin from = place(0, SN_NO_SLOT);

    (void)state;
    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        for (uint32_t id = 0; id < 2; id++) {
            struct roce_cm m = {
                .attr = attrs[i], .tid = client->tid ^ 1, .local_id = id, .remote_id = client->local_id};

            m.qpn = client->qpn;
            say(1, &from, &m);
            net.ends[1].cm.said_at = 0;
        }
    }
    assert_int_equal(net.ends[1].cm.suspects, 12);
    assert_int_equal(client->state, CM_REQ_SENT);
    assert_int_equal(client->remote_id, 0);
    net_quiet(&net, 1);
    net_down(&net);
}

/* Another process of the host cannot answer for a server there with a queue pair, or an ID, that is not
 * its own. */
static void an_answer_comes_from_its_queue_pairs_process(void **state)
{
    struct cm_id *client = asking(4, true);
    struct cm_origin from = place(0, 77);
    struct roce_cm m = {
        .attr = ROCE_CM_REP, .tid = client->tid, .local_id = 40u << 24 | 5, .remote_id = client->local_id};

    (void)state;
    m.qpn = 77u << 16 | 5;
    say(1, &from, &m);
    refused(1, 1, "another process");
    m.local_id = 77u << 24 | 5;
    m.qpn = 40u << 16 | 5;
    say(1, &from, &m);
    refused(1, 2, "its queue pair is another process's");
    assert_int_equal(client->state, CM_REQ_SENT);
    net_down(&net);
}

static struct roce_cm right_req(uint32_t local_id, uint32_t qpn)
{
    struct roce_cm m = {.attr = ROCE_CM_REQ, .tid = local_id, .local_id = local_id, .qpn = qpn, .mtu = 3};
    struct roce_cma_hdr h = {.port = 5};

    m.service_id = roce_cm_service_id(RDMA_PS_TCP, NET_PORT);
    net_gid(1, m.sgid);
    net_gid(0, m.dgid);
    memcpy(h.src, m.sgid, 16);
    memcpy(h.dst, m.dgid, 16);
    roce_cma_build(m.private_data, &h);
    m.private_len = ROCE_CMA_HDR;
    return m;
}

static void a_request_names_its_senders_queue_pair(void **state)
{
    struct cm_origin from = place(1, 41);
    struct roce_cm m;

    (void)state;
    net_up(&net, 5, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    m = right_req(41u << 24 | 9, 42u << 16 | 7);
    say(0, &from, &m);
    refused(0, 1, "its queue pair is another process's");
    m = right_req(42u << 24 | 9, 41u << 16 | 7);
    say(0, &from, &m);
    refused(0, 2, "its communication ID is another process's");
    m = right_req(0, 41u << 16 | 7);
    say(0, &from, &m);
    refused(0, 3, "names no communication ID");
    from = place(0, SN_NO_SLOT); /* the listener's own address */
    m = right_req(41u << 24 | 9, 41u << 16 | 7);
    say(0, &from, &m);
    refused(0, 4, "no process of this host sent it");
    net_quiet(&net, 0);
    net_down(&net);
}

/* A peer asks, is told yes, and asks again, as another. */
static void half_open_connections_of_one_address_are_few(void **state)
{
    struct cm_origin from = place(1, SN_NO_SLOT), other = place(1, SN_NO_SLOT);
    uint32_t taken = 0;
    struct roce_cm m;

    (void)state;
    net_up(&net, 6, 0);
    net.cut = true;
    net_listener(&net, 0, RDMA_PS_TCP);
    for (uint32_t i = 1; i <= 2 * CM_MAX_HALF_OPEN; i++) {
        struct rdma_ucm_event_resp e;

        m = right_req(i, i);
        say(0, &from, &m);
        if (!cm_event_take(&net.ends[0].file, &e)) continue;
        taken++;
        assert_int_equal(net_accept(cm_id_find(&net.ends[0].cm, &net.ends[0].file, e.id), 700 + i, i, ""), 0);
    }
    assert_int_equal(taken, CM_MAX_HALF_OPEN);
    refused(0, CM_MAX_HALF_OPEN, "does not bring to an end what it began");
    other.gid[15] = 99; /* others are still heard */
    m = right_req(1, 1);
    memcpy(m.sgid, other.gid, 16);
    say(0, &other, &m);
    assert_int_equal(net.ends[0].file.event_count, 1);
    net_down(&net);
}

/* The peer says how long its packets may be on their way, and how long it may think: hours, if it likes. */
static void a_peer_does_not_say_hours(void **state)
{
    struct cm_origin from = place(1, SN_NO_SLOT), server = place(0, SN_NO_SLOT);
    struct roce_cm m = right_req(3, 3), dreq = {.attr = ROCE_CM_DREQ}, mra = {.attr = ROCE_CM_MRA};
    struct rdma_ucm_event_resp e;
    struct cm_id *id, *client;

    (void)state;
    net_up(&net, 7, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    m.ack_timeout = 31;
    say(0, &from, &m);
    e = net_event(&net, 0, CM_EVENT_CONNECT_REQUEST);
    id = cm_id_find(&net.ends[0].cm, &net.ends[0].file, e.id);
    assert_int_equal(net_accept(id, 700, 5, ""), 0);
    dreq.local_id = 3;
    dreq.remote_id = id->local_id;
    dreq.qpn = 5;
    say(0, &from, &dreq);
    net_event(&net, 0, CM_EVENT_DISCONNECTED);
    assert_int_equal(cm_disconnect(id), 0);
    assert_true(id->deadline - net.now <= cm_time_ns(CM_SERVICE_TIME));
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    assert_int_equal(net_connect(client, 9, ""), 0);
    mra = (struct roce_cm){
        .attr = ROCE_CM_MRA, .tid = client->tid, .local_id = 8, .remote_id = client->local_id};
    mra.service_timeout = 31;
    say(1, &server, &mra);
    assert_true(client->deadline - net.now <= 2 * cm_time_ns(CM_SERVICE_TIME));
    net_down(&net);
}

/* The attack: from what two requests reveal, the numbers of the next one follow. */
static void numbers_come_from_outside(void **state)
{
    struct pair p;
    uint32_t local_id, psn;
    uint64_t tid;

    (void)state;
    net_up(&net, 8, 0);
    p = connect_pair(&net);
    local_id = p.client->local_id;
    psn = p.client->psn;
    tid = p.client->tid;
    net_down(&net);
    net_up(&net, 8, 0);
    net.ends[1].secrets.state ^= 1;
    p = connect_pair(&net);
    assert_true(p.client->local_id != local_id && p.client->psn != psn && p.client->tid != tid);
    assert_int_equal(p.client->local_id >> 24, local_id >> 24);
    net_down(&net);
}

static void without_random_numbers_nothing_begins(void **state)
{
    struct cm_id *client;

    (void)state;
    net_up(&net, 9, 0);
    net_listener(&net, 0, RDMA_PS_TCP);
    client = net_resolved(&net, 1, 0, RDMA_PS_TCP, NET_PORT);
    net.ends[1].no_random = true;
    assert_int_equal(net_connect(client, 9, ""), -EIO);
    net.ends[1].no_random = false;
    net.ends[0].no_random = true;
    assert_int_equal(net_connect(client, 9, ""), 0);
    assert_int_equal(net_event(&net, 1, CM_EVENT_REJECTED).status, ROCE_REJ_NO_RESOURCES);
    net_quiet(&net, 0);
    net_down(&net);
}

/* Many wrong guesses in a second are said, though each might be a late message. */
static void many_strays_are_said(void **state)
{
    struct cm_origin from = place(1, SN_NO_SLOT);
    struct pair p;

    (void)state;
    net_up(&net, 10, 0);
    p = connect_pair(&net);
    for (uint32_t i = 0; i < 5000; i++) {
        struct roce_cm m = right_dreq(&p);

        m.remote_id ^= (i + 1) << 2;
        say(0, &from, &m);
        if (i % 64 == 0) net_run(&net, 1000000);
    }
    assert_int_equal(net.ends[0].warnings, 1);
    assert_non_null(strstr(net.ends[0].warning, "like many others in this second"));
    still_connected(&p);
    net_down(&net);
}

/* The kernel knows who writes a letter. The writer can make up the rest. */
static void letters_are_believed_as_their_writers_are(void **state)
{
    const struct cm_writer ours = {.ours = true}, here = {.speaks_for_here = true},
                           stranger = {.ours = false}, passes_on = {.may_speak_for_others = true};
    struct roce_cm req = {.attr = ROCE_CM_REQ, .local_id = 7u << 24 | 1}, dreq = {.attr = ROCE_CM_DREQ};
    struct cm_letter l = {.from.slot = 40};

    (void)state;
    assert_null(cm_letter_refused(&l, &req, &ours));
    assert_int_equal(l.from.slot, 40);
    assert_non_null(cm_letter_refused(&l, &dreq, &ours));
    assert_non_null(cm_letter_refused(&l, &req, &stranger));
    l.from.slot = 40;
    assert_null(cm_letter_refused(&l, &req, &here));
    assert_int_equal(l.from.slot, 7); /* where the answer goes, whatever the letter says */
    l.from.slot = 40;
    assert_null(cm_letter_refused(&l, &req, &passes_on));
    assert_int_equal(l.from.slot, SN_NO_SLOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dreq_names_both_ids_and_the_queue_pair),
        cmocka_unit_test(on_one_host_the_process_counts),
        cmocka_unit_test(an_answer_names_the_transaction),
        cmocka_unit_test(an_answer_comes_from_its_queue_pairs_process),
        cmocka_unit_test(a_request_names_its_senders_queue_pair),
        cmocka_unit_test(half_open_connections_of_one_address_are_few),
        cmocka_unit_test(a_peer_does_not_say_hours),
        cmocka_unit_test(numbers_come_from_outside),
        cmocka_unit_test(without_random_numbers_nothing_begins),
        cmocka_unit_test(many_strays_are_said),
        cmocka_unit_test(letters_are_believed_as_their_writers_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
