/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two connection managers and a stranger, with time passing. The input says what programs at both ends do,
 * which messages arrive, in which order and how often, and what the stranger says in between. The stranger is
 * another host, another process of the same host, or forges the peer's address. It knows every number of the
 * connections but one.
 *
 * The stranger's messages must change no connection but its own. A connection must lead to a queue pair that
 * the peer's program made. In the end nothing must be left.
 */
#include "tests/fuzz/cm_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENDS = 2, FLYING = 32, MADE = 256, STEPS = 400, PORT = 7, STRANGER_SLOT = 77 };
#define SECOND UINT64_C(1000000000)

struct flying {
    unsigned to;
    struct cm_origin from;
    uint8_t mad[ROCE_MAD_LEN];
};

/* Each end has a file, some ids, and the pairs of ID and queue pair that its program made. */
struct end {
    unsigned index;
    struct cm cm;
    struct cm_file file;
    struct {
        uint32_t id, qpn;
    } made[MADE];
    unsigned made_count;
};

static struct end ends[ENDS];
static struct flying flying[FLYING];
static unsigned flights;
static bool one_host;
static const uint8_t stranger_gid[16] = {[10] = 0xff, 0xff, 10, 0, 0, 9};

/* ---- what the two live in ------------------------------------------------------------------------------ */

static void gid_of(unsigned end, uint8_t gid[16])
{
    static const uint8_t first[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

    memcpy(gid, first, 16);
    if (!one_host) gid[15] = (uint8_t)(1 + end);
}

/* The slots tell them apart where the addresses do not. */
static unsigned end_of(const uint8_t dgid[16], const uint8_t mad[ROCE_MAD_LEN], unsigned sender)
{
    uint32_t id;

    if (!one_host) return dgid[15] - 1u;
    return roce_cm_receiver_id(mad, &id) ? (id >> 24) - 40 : 1 - sender;
}

static void env_send(void *ctx, const struct cm_nic *nic, const uint8_t dgid[16],
                     const uint8_t mad[ROCE_MAD_LEN])
{
    struct end *e = ctx;
    struct roce_cm m;
    unsigned to = end_of(dgid, mad, e->index);
    struct flying *f = &flying[flights];

    require(!roce_cm_parse(mad, &m));
    if (to >= ENDS || flights == FLYING) return; /* to the stranger, or lost */
    flights++;
    f->to = to;
    memcpy(f->from.gid, nic->gid, 16);
    f->from.slot = one_host ? nic->slot : SN_NO_SLOT;
    memcpy(f->mad, mad, ROCE_MAD_LEN);
}

static void up(void)
{
    for (unsigned i = 0; i < ENDS; i++) {
        struct end *e = &ends[i];
        struct cm_nic nic = {.mtu = 5, .slot = (uint8_t)(40 + i)};

        gid_of(i, nic.gid);
        e->index = i;
        e->made_count = 0;
        env_up(&e->cm, &e->file, e, env_send, &nic);
    }
}

/* ---- programs ------------------------------------------------------------------------------------------ */

static uint32_t new_qpn(const struct end *e)
{
    return (40 + e->index) << 16 | (next_random++ & 0xffff);
}

static void note_made(struct end *e, const struct cm_id *id)
{
    if (e->made_count == MADE) return;
    e->made[e->made_count].id = id->local_id;
    e->made[e->made_count++].qpn = id->qpn;
}

static void listen_at(struct end *e, uint16_t ps)
{
    struct cm_id *id = env_id(&e->cm, &e->file, ps);
    struct cm_addr addr = {.family = 2, .port = PORT};

    memcpy(addr.gid, e->cm.nics[0].gid, 16);
    if (cm_bind(id, &addr) || cm_listen(id, 3)) cm_destroy(id);
}

static void connect_from(struct end *e, uint16_t ps)
{
    struct rdma_ucm_connect cmd = {.conn_param = {.valid = 1, .qp_num = new_qpn(e), .retry_count = 3}};
    struct cm_addr addr = {.family = 2, .port = PORT}, none = {0};
    struct cm_id *id = env_id(&e->cm, &e->file, ps);

    gid_of(1 - e->index, addr.gid);
    if (cm_resolve_addr(id, &none, &addr) || cm_resolve_route(id) || cm_connect(id, &cmd))
        cm_destroy(id);
    else
        note_made(e, id);
}

static void accept_it(struct end *e, struct cm_id *id)
{
    struct rdma_ucm_accept yes = {.uid = 2};

    yes.conn_param.valid = id->state != CM_REP_RCVD;
    yes.conn_param.qp_num = new_qpn(e);
    if (!cm_accept(id, &yes) && yes.conn_param.valid) note_made(e, id);
}

/* One of the ids that the program has. */
static struct cm_id *some_id(struct end *e, uint8_t which)
{
    uint32_t handle = e->cm.high ? 1 + which % e->cm.high : 0;

    return cm_id_find(&e->cm, &e->file, handle);
}

static void program(struct end *e, struct stream *s)
{
    const struct rdma_ucm_reject no = {.private_data_len = 3};
    struct rdma_ucm_event_resp event;
    uint8_t what = take8(s);
    struct cm_id *id = some_id(e, take8(s));

    switch (what % 12) {
    case 0: listen_at(e, RDMA_PS_TCP); return;
    case 1: listen_at(e, RDMA_PS_UDP); return;
    case 2: connect_from(e, RDMA_PS_TCP); return;
    case 3: connect_from(e, RDMA_PS_UDP); return;
    case 4: cm_event_take(&e->file, &event); return;
    case 5: /* as most programs do */
        while (cm_event_take(&e->file, &event)) {
            id = cm_id_find(&e->cm, &e->file, event.id);
            if (id) accept_it(e, id);
        }
        return;
    default: break;
    }
    if (!id) return;
    switch (what % 12) {
    case 6:
    case 7: accept_it(e, id); return;
    case 8: cm_reject(id, &no); return;
    case 9: cm_disconnect(id); return;
    case 10: cm_destroy(id); return;
    default: cm_notify(id, IBV_EVENT_COMM_EST); return;
    }
}

/* ---- the network --------------------------------------------------------------------------------------- */

/* One message arrives: and is gone, or comes once more later. */
static void deliver(uint8_t which, bool again)
{
    struct flying f;

    if (!flights) return;
    which = (uint8_t)(which % flights);
    f = flying[which];
    if (!again) flying[which] = flying[--flights];
    cm_input(&ends[f.to].cm, ends[f.to].cm.nics[0].gid, &f.from, f.mad);
}

/* Everything arrives, for a while. */
static void calm(void)
{
    for (int i = 0; i < 64 && flights; i++) deliver(0, false);
}

static void tick(uint64_t ns)
{
    now += ns;
    for (unsigned i = 0; i < ENDS; i++) cm_tick(&ends[i].cm);
}

/* ---- the stranger -------------------------------------------------------------------------------------- */

/* A connection, as far as messages change it. */
struct seen {
    uint32_t handle, local_id, remote_id, remote_qpn;
    enum cm_state state;
};

static bool is_strangers(const struct cm_id *id)
{
    if (!memcmp(id->peer, stranger_gid, 16)) return true;
    return one_host && id->same_host && id->remote_id >> 24 == STRANGER_SLOT;
}

static struct seen see(const struct cm_id *id)
{
    return (struct seen){id->handle, id->local_id, id->remote_id, id->remote_qpn, id->state};
}

static unsigned look(const struct end *e, struct seen seen[64])
{
    unsigned n = 0;

    for (uint32_t i = 0; i < e->cm.high && n < 64; i++)
        if (e->cm.ids[i] && !is_strangers(e->cm.ids[i])) seen[n++] = see(e->cm.ids[i]);
    return n;
}

static void must_be_as_before(const struct end *e, const struct seen *seen, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const struct cm_id *id = e->cm.ids[seen[i].handle - 1];
        struct seen after;

        require(id != NULL);
        after = see(id);
        require(!memcmp(&after, &seen[i], sizeof(after)));
    }
}

/* A message about a connection with everything right. */
static struct roce_cm all_right(const struct cm_id *id, uint16_t attr)
{
    struct roce_cm m = {.attr = attr, .local_id = id->remote_id, .remote_id = id->local_id, .qpn = id->qpn};

    m.tid = attr == ROCE_CM_DREP ? id->end_tid : id->tid;
    m.service_id = id->service_id;
    if (attr == ROCE_CM_REP) m.qpn = id->remote_qpn;
    if (attr == ROCE_CM_SIDR_REP) m.local_id = id->local_id;
    return m;
}

/* A stranger who forges the address as well has one number wrong, of those that the message has. */
static void one_wrong(struct roce_cm *m, const struct cm_id *id, uint8_t which, uint32_t by)
{
    bool has_tid = m->attr != ROCE_CM_DREQ;
    /* Until it is answered a request can be refused with ID 0, so there the transaction alone counts. */
    bool only_tid = !id->remote_id || (m->attr == ROCE_CM_REJ && id->state == CM_REQ_SENT);

    if (m->attr == ROCE_CM_SIDR_REP && which & 1)
        m->service_id ^= by;
    else if (has_tid && (which & 1 || m->attr == ROCE_CM_SIDR_REP || only_tid))
        m->tid ^= by;
    else if (m->attr == ROCE_CM_DREQ && which & 2)
        m->qpn ^= by & 0xffffff ? by & 0xffffff : 1;
    else
        m->local_id = which & 4 ? 0 : m->local_id ^ by;
}

static void request_as_itself(struct roce_cm *m, const struct end *e, const struct cm_origin *from,
                              uint8_t which)
{
    struct roce_cma_hdr h = {.port = which};

    m->local_id = (uint32_t)STRANGER_SLOT << 24 | which;
    m->qpn = STRANGER_SLOT << 16 | which;
    m->mtu = 3;
    m->service_id = roce_cm_service_id(m->attr == ROCE_CM_REQ ? RDMA_PS_TCP : RDMA_PS_UDP, PORT);
    memcpy(m->sgid, from->gid, 16);
    memcpy(m->dgid, e->cm.nics[0].gid, 16);
    roce_cma_build(m->private_data, &h);
    m->private_len = ROCE_CMA_HDR;
}

static void stranger(struct end *e, struct stream *s)
{
    uint16_t attr = (uint16_t)(ROCE_CM_REQ + take8(s) % 9);
    uint8_t how = take8(s), which = take8(s);
    const struct cm_id *id = e->cm.ids[e->cm.high ? which % e->cm.high : 0];
    struct cm_origin from = {.slot = one_host ? STRANGER_SLOT : SN_NO_SLOT};
    struct seen seen[64];
    uint8_t mad[ROCE_MAD_LEN];
    uint32_t events = e->file.event_count;
    unsigned n = look(e, seen);
    struct roce_cm m;

    if (!id || is_strangers(id)) return;
    m = all_right(id, attr);
    m.about = how >> 6;
    m.reason = how & 31;
    memcpy(from.gid, one_host ? id->peer : stranger_gid, 16);
    if (how & 1 && !one_host) { /* in the peer's name */
        memcpy(from.gid, id->peer, 16);
        one_wrong(&m, id, take8(s), 1u + take8(s));
    }
    /* ID 0 in a REJ is no other process's, so there the transaction must be wrong. */
    if (one_host && !m.local_id) m.tid ^= 1;
    if (attr == ROCE_CM_REQ || attr == ROCE_CM_SIDR_REQ) {
        if (how & 2) return;
        memcpy(from.gid, one_host ? e->cm.nics[0].gid : stranger_gid, 16);
        request_as_itself(&m, e, &from, which);
    }
    roce_cm_build(mad, &m);
    cm_input(&e->cm, e->cm.nics[0].gid, &from, mad);
    must_be_as_before(e, seen, n);
    require(e->file.event_count == events || attr == ROCE_CM_REQ || attr == ROCE_CM_SIDR_REQ);
}

/* ---- what must hold ------------------------------------------------------------------------------------ */

static bool was_made(const struct end *e, const struct cm_id *id)
{
    for (unsigned i = 0; i < e->made_count; i++)
        if (e->made[i].id == id->remote_id && e->made[i].qpn == id->remote_qpn) return true;
    return e->made_count == MADE;
}

static void check(const struct end *e)
{
    for (uint32_t i = 0; i < e->cm.high; i++) {
        const struct cm_id *id = e->cm.ids[i];

        if (!id || id->state != CM_ESTABLISHED || id->qp_type == IBV_QPT_UD || is_strangers(id)) continue;
        require(was_made(&ends[1 - e->index], id));
    }
}

/* Programs close, and time passes. */
static void down(void)
{
    for (unsigned i = 0; i < ENDS; i++) cm_file_end(&ends[i].cm, &ends[i].file);
    for (int i = 0; i < 100; i++) {
        calm();
        tick(SECOND);
    }
    for (unsigned i = 0; i < ENDS; i++) {
        require(ends[i].cm.high == 0 && ends[i].file.event_count == 0);
        cm_end(&ends[i].cm);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {data, size};

    now = 1;
    flights = 0;
    next_random = 1;
    one_host = take8(&s) & 1;
    up();
    for (int step = 0; s.left && step < STEPS; step++) {
        uint8_t what = take8(&s);
        struct end *e = &ends[what >> 7];

        switch (what & 7) {
        case 0:
        case 1: program(e, &s); break;
        case 2: deliver(take8(&s), what & 64); break;
        case 3: calm(); break;
        case 4:
        case 5: stranger(e, &s); break;
        case 6: tick(UINT64_C(1) << (20 + take8(&s) % 17)); break;
        default:
            if (flights) flights--; /* lost */
            break;
        }
        check(&ends[0]);
        check(&ends[1]);
    }
    down();
    return 0;
}
