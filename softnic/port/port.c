/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives frames by way of local peers, the wire, captures and faults. */
#include "softnic/port/port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "softnic/base/clock.h"
#include "src/roce/hdr.h"

/* How soon to try again to hand over frames that are due and were not taken. */
#define AGAIN_NS 20000u

enum { RX_ROOM = 64, DRY = 16, DRY_EVERY = 8, SOCKETS_TURN = 16 };

/* Frames that an unkind network hands to the engine. Its bytes stay until the next receive. */
struct received {
    struct sn_frame *frames; /* the caller's */
    int n, max;
    uint8_t data[RX_ROOM][SN_FAULT_FRAME];
};

struct sn_port {
    struct sn_udp *udp; /* one of the two */
    struct sn_eth *eth;
    struct sn_local *local; /* NULL: nothing goes through shared memory */
    unsigned dry;           /* times that the sockets had nothing, in a row */
    unsigned met, turn;
    bool catch_up;            /* until the sockets are empty they come first */
    struct sn_pcap *pcap;     /* NULL: no capture */
    struct sn_fault *tx, *rx; /* NULL: a kind network */
    struct received *received;
    char why_no_local[256];
    struct sn_faults faults;
    uint64_t seed;
    /* when the fault layers have something due; written inside the engine's lock, read outside */
    uint64_t next;
};

static _Thread_local enum sn_port_ask ask;

/* ---- the sockets, and the capture at them -------------------------------------------------------------- */

static int socket_send(struct sn_port *port, const struct sn_frame *frames, int n)
{
    return port->eth ? sn_eth_send(port->eth, frames, n) : sn_udp_send(port->udp, frames, n);
}

static int lower_send(struct sn_port *port, const struct sn_frame *frames, int n)
{
    uint64_t time;
    int taken = 0;

    /* What is in this process's memory is of no use elsewhere; who does not answer gets the bytes. */
    if (frames[0].rndv) return 1;
    while (taken < n && !frames[taken].rndv) taken++;
    n = taken;
    if (!port->pcap) return socket_send(port, frames, n);
    time = sn_pcap_now(); /* before the answers' */
    taken = socket_send(port, frames, n);
    sn_pcap_frames(port->pcap, frames, taken, true, time);
    return taken;
}

/*
 * To ask the sockets is a system call or two. A thread that polls, with peers that send through shared
 * memory, would notice their frames later for it. So when the sockets have had nothing for a while it asks
 * them only now and then.
 */
static bool spare_the_sockets(struct sn_port *port)
{
    if (ask == SN_ASK_NEVER) return true;
    if (ask == SN_ASK_ALWAYS || !port->local || !sn_local_senders(port->local) || port->dry < DRY)
        return false;
    return port->dry++ % DRY_EVERY != 0;
}

static int lower_recv(struct sn_port *port, struct sn_frame *frames, int max, bool *more)
{
    int n;

    *more = false;
    if (!port->catch_up && (port->eth || !sn_udp_holds_frames(port->udp)) && spare_the_sockets(port))
        return 0;
    n = port->eth ? sn_eth_recv(port->eth, frames, max, more) : sn_udp_recv(port->udp, frames, max, more);
    port->dry = n || *more ? 0 : port->dry + 1;
    if (port->pcap) sn_pcap_frames(port->pcap, frames, n, false, sn_pcap_now());
    return n;
}

/* ---- the unkind network -------------------------------------------------------------------------------- */

static bool port_send_one(void *ctx, const struct sn_frame *frame)
{
    return lower_send(ctx, frame, 1) == 1;
}

static bool receive_one(void *ctx, const struct sn_frame *frame)
{
    struct received *r = ((struct sn_port *)ctx)->received;

    if (r->n == r->max) return false;
    r->frames[r->n] = *frame;
    r->frames[r->n].data = memcpy(r->data[r->n], frame->data, frame->len);
    r->n++;
    return true;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void set_next(struct sn_port *port, uint64_t now)
{
    uint64_t next = SN_NEVER;

    if (port->tx) next = sn_fault_next(port->tx);
    if (port->rx) next = earlier(next, sn_fault_next(port->rx));
    if (next <= now) next = now + AGAIN_NS;
    /* Relaxed: a time to wake up at. The woken thread looks again inside the lock. */
    __atomic_store_n(&port->next, next, __ATOMIC_RELAXED);
}

/* Frames then go past it, in batches. */
static bool kind(const struct sn_fault *fault)
{
    return !fault || sn_fault_idle(fault);
}

/* Frames for peers of this host go through shared memory, the others as ever, all in their order. */
static int send_local(struct sn_port *port, const struct sn_frame *frames, int n)
{
    int i = 0, taken = 1;

    while (i < n && taken > 0) {
        int others = 1;

        /* Its answer alone says which way a frame goes: a peer may ask for the wire at any moment. */
        taken = sn_local_send(port->local, &frames[i]);
        if (taken < 0) {
            while (i + others < n && !sn_local_reaches(port->local, &frames[i + others])) others++;
            taken = lower_send(port, frames + i, others);
        }
        i += taken;
        if (taken < others) break;
    }
    sn_local_sent(port->local);
    return i;
}

static int wire_send(void *ctx, const struct sn_frame *frames, int n)
{
    struct sn_port *port = ctx;
    int i;

    if (port->local && kind(port->tx)) return send_local(port, frames, n);
    if (kind(port->tx)) return lower_send(port, frames, n);
    uint64_t now = sn_now_ns();
    for (i = 0; i < n; i++) {
        if (!sn_fault_send(port->tx, now, &frames[i])) break;
    }
    set_next(port, now);
    return i;
}

/* What is due comes first. Of the sockets' frames no more are taken than there is room for if each comes
 * twice. */
static int receive_unkindly(struct sn_port *port, struct sn_frame *frames, int max, bool *more, uint64_t now)
{
    struct received *r = port->received;
    struct sn_frame in[RX_ROOM / 2];
    int room, n = 0;

    r->frames = frames;
    r->n = 0;
    r->max = max < RX_ROOM ? max : RX_ROOM;
    sn_fault_run(port->rx, now);
    room = (r->max - r->n) / 2;
    *more = room == 0;
    if (room) n = lower_recv(port, in, room, more);
    for (int i = 0; i < n; i++) {
        in[i].icrc_checked = false; /* it may not stay as it is */
        sn_fault_send(port->rx, now, &in[i]);
    }
    return r->n;
}

/*
 * When a peer's first frames are found in memory, what it sent before lies in our sockets, and comes first:
 * unreliable connections take nothing that was overtaken. And peers that send through memory without a pause
 * do not keep others from being heard.
 */
static bool sockets_first(struct sn_port *port)
{
    unsigned met = sn_local_met(port->local);

    if (met != port->met) port->catch_up = true;
    port->met = met;
    return kind(port->tx) && kind(port->rx) && (port->catch_up || ++port->turn % SOCKETS_TURN == 0);
}

/* The sockets had no frames. Is that all? If another thread is at them it brings us back. */
static bool caught_up(struct sn_port *port, bool *more)
{
    enum sn_udp_left left = sn_udp_left(port->udp);

    port->catch_up = left != SN_UDP_NOTHING;
    *more = left == SN_UDP_PERHAPS;
    return !port->catch_up;
}

static int wire_recv(void *ctx, struct sn_frame *frames, int max, bool *more)
{
    struct sn_port *port = ctx;
    uint64_t now;
    int n;

    if (port->local) {
        if (sockets_first(port)) {
            n = lower_recv(port, frames, max, more);
            if (!n && port->catch_up && !caught_up(port, more)) return 0;
            *more = true;
            if (n) return n;
        }
        n = sn_local_recv(port->local, frames, max);
        *more = true;
        if (n || sn_local_met(port->local) != port->met) return n;
    }
    if (kind(port->tx) && kind(port->rx)) return lower_recv(port, frames, max, more);
    now = sn_now_ns();
    if (port->tx) sn_fault_run(port->tx, now);
    n = !kind(port->rx) ? receive_unkindly(port, frames, max, more, now)
                        : lower_recv(port, frames, max, more);
    set_next(port, now);
    return n;
}

/* A station on an Ethernet link has its address to itself: there is no slot that another could take. */
static struct sn_owner wire_owner(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    struct sn_port *port = ctx;

    if (port->eth) return (struct sn_owner){.kind = SN_OWNER_UNKNOWN};
    return sn_udp_owner(port->udp, gid, qpn >> 16);
}

const struct sn_wire_ops sn_port_wire_ops = {.send = wire_send, .recv = wire_recv, .owner = wire_owner};

static int set_one(struct sn_port *port, struct sn_fault **fault, const struct sn_fault_params *params,
                   const uint64_t *seed, sn_fault_sink *sink)
{
    uint64_t now = sn_now_ns();

    if (!*fault && sn_fault_any(params)) {
        /* Not the same chances both ways: what happens to a request would happen to its answer. */
        *fault = sn_fault_new(params, sink == receive_one ? ~port->seed : port->seed, now, sink, port);
        if (!*fault) return -ENOMEM;
    } else if (*fault) {
        sn_fault_set(*fault, params, now);
        if (seed) sn_fault_seed(*fault, sink == receive_one ? ~*seed : *seed);
    }
    return 0;
}

int sn_port_set_faults(struct sn_port *port, const struct sn_faults *faults, const uint64_t *seed)
{
    int err;

    if (seed) port->seed = *seed;
    if (!port->received && sn_fault_any(&faults->rx)) port->received = calloc(1, sizeof(*port->received));
    if (!port->received && sn_fault_any(&faults->rx)) return -ENOMEM;
    err = set_one(port, &port->tx, &faults->tx, seed, port_send_one);
    if (!err) err = set_one(port, &port->rx, &faults->rx, seed, receive_one);
    if (!err) port->faults = *faults;
    /* What is to be disturbed must go where it can be. */
    if (!err && port->local) sn_local_pause(port->local, sn_faults_any(faults));
    return err;
}

void sn_port_faults(const struct sn_port *port, struct sn_port_faults *out)
{
    memset(out, 0, sizeof(*out));
    out->set = port->faults;
    if (port->tx) sn_fault_stats(port->tx, &out->tx);
    if (port->rx) sn_fault_stats(port->rx, &out->rx);
}

/* ---- making and ending --------------------------------------------------------------------------------- */

static bool port_ask_name(void *ctx, const uint8_t gid[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE])
{
    const struct sn_port *port = ctx;

    return sn_udp_ask(port->udp, gid, slot, nonce);
}

static void told_name(void *ctx, const uint8_t gid[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE],
                      const uint8_t name[SN_MEET_NAME])
{
    const struct sn_port *port = ctx;

    sn_local_told(port->local, gid, slot, nonce, name);
}

/* Without it everything goes over the sockets. Frames that are to be captured or disturbed do anyhow. */
static void open_local(struct sn_port *port, const struct sn_config *config)
{
    struct sn_local_config c = {.slot = sn_port_slot(port),
                                .copy = config->local == SN_LOCAL_CMA,
                                .ask = port_ask_name,
                                .ask_ctx = port};

    memcpy(c.gid, config->addr.gid, 16);
    if (config->local == SN_LOCAL_OFF)
        snprintf(port->why_no_local, sizeof(port->why_no_local), "GPUWIRE_NIC says local=off");
    else if (port->eth)
        snprintf(port->why_no_local, sizeof(port->why_no_local), "everything goes over raw Ethernet");
    else if (config->pcap[0] || sn_faults_any(&config->fault))
        snprintf(port->why_no_local, sizeof(port->why_no_local), "packets are captured or disturbed");
    else
        sn_local_open(&c, &port->local, port->why_no_local);
    if (port->local)
        sn_udp_on_hello(port->udp, &(struct sn_udp_hello){sn_local_name(port->local), told_name, port});
}

int sn_port_open(const struct sn_config *config, struct sn_port **out, char why[256])
{
    struct sn_port *port = calloc(1, sizeof(*port));
    int err = port ? 0 : -ENOMEM;

    if (!err) {
        port->next = SN_NEVER;
        port->seed = config->seed;
        err = sn_port_set_faults(port, &config->fault, NULL);
    }
    if (err)
        snprintf(why, 256, "out of memory");
    else if (config->eth.on)
        err = sn_eth_open(&config->addr, &config->eth, config->seed, &port->eth, why);
    else
        err = sn_udp_open(&config->addr, config->seed, &port->udp, why);
    if (!err && port->udp && sn_udp_threads(port->udp, config->threads)) {
        snprintf(why, 256, "out of memory");
        err = -ENOMEM;
    }
    if (!err && config->pcap[0])
        err = sn_pcap_open(config->pcap, config->pcap_max, config->addr.gid, &port->pcap, why);
    if (err) {
        sn_port_close(port);
        return err;
    }
    if (!config->no_ecn && port->udp) sn_udp_mark(port->udp, ROCE_ECT);
    open_local(port, config);
    if (config->no_gso && port->udp) sn_udp_no_segments(port->udp);
    *out = port;
    return 0;
}

void sn_port_on_refused(struct sn_port *port, sn_udp_refused *refused)
{
    if (port->udp) sn_udp_on_refused(port->udp, refused);
}

void sn_port_let_go(struct sn_port *port)
{
    if (port->tx) sn_fault_run(port->tx, UINT64_MAX);
}

void sn_port_close(struct sn_port *port)
{
    if (!port) return;
    sn_port_let_go(port);
    sn_fault_free(port->tx);
    sn_fault_free(port->rx);
    free(port->received);
    sn_pcap_close(port->pcap);
    sn_local_close(port->local);
    sn_udp_close(port->udp);
    sn_eth_close(port->eth);
    free(port);
}

int sn_port_fetch(struct sn_port *port)
{
    return sn_udp_fetch(port->udp);
}

unsigned sn_port_slot(const struct sn_port *port)
{
    return port->eth ? sn_eth_slot(port->eth) : sn_udp_slot(port->udp);
}

uint16_t sn_port_udp_port(const struct sn_port *port)
{
    return port->eth ? sn_eth_port(port->eth) : sn_udp_port(port->udp);
}

int sn_port_sockets(const struct sn_port *port, int fds[SN_PORT_FDS])
{
    if (!port->eth) return sn_udp_fds(port->udp, fds);
    fds[0] = sn_eth_fd(port->eth);
    return 1;
}

int sn_port_fds(const struct sn_port *port, int fds[SN_PORT_FDS])
{
    int n = sn_port_sockets(port, fds);

    if (port->local) fds[n++] = sn_local_fd(port->local);
    return n;
}

int sn_port_claim_fds(const struct sn_port *port, int fds[SN_PORT_CLAIMS])
{
    if (port->eth)
        fds[0] = sn_eth_claim_fd(port->eth);
    else
        sn_udp_claim_fds(port->udp, fds);
    return port->eth ? fds[0] >= 0 : SN_PORT_CLAIMS;
}

struct sn_local *sn_port_local(const struct sn_port *port)
{
    return port->local;
}

uint32_t sn_port_room(const struct sn_port *port)
{
    return port->eth ? sn_eth_room(port->eth) : sn_udp_room(port->udp);
}

void sn_port_local_text(const struct sn_port *port, char *text, size_t size)
{
    struct sn_local_info i;

    if (!port->local) {
        snprintf(text, size, "over the wire like others: %s", port->why_no_local);
        return;
    }
    sn_local_info(port->local, &i);
    if (i.copy && !i.why[0])
        snprintf(text, size,
                 "by copies between processes (cma; a GPU's memory, where this process uses that GPU or one "
                 "that reaches it, by CUDA IPC); what is short "
                 "and no WRITE or READ, through shared memory");
    else
        snprintf(text, size, "through shared memory (ring), not by copies: %s",
                 i.copy ? i.why : "GPUWIRE_NIC says local=ring");
}

const char *sn_port_note(const struct sn_port *port)
{
    return port->eth ? "" : sn_udp_note(port->udp);
}

bool sn_port_note_matters(const struct sn_port *port)
{
    return port->udp && sn_udp_note_matters(port->udp);
}

bool sn_port_segments(const struct sn_port *port)
{
    return port->udp && sn_udp_segments(port->udp);
}

bool sn_port_has_rocev2(const struct sn_port *port)
{
    int fds[2];

    return port->udp && sn_udp_fds(port->udp, fds) == 2;
}

void sn_port_stats(const struct sn_port *port, struct sn_udp_stats *stats)
{
    if (port->eth)
        sn_eth_stats(port->eth, stats);
    else
        sn_udp_stats(port->udp, stats);
    if (port->local) stats->memory_lost = sn_local_lost(port->local);
}

struct sn_pcap *sn_port_pcap(const struct sn_port *port)
{
    return port->pcap;
}

uint64_t sn_port_next(const struct sn_port *port)
{
    return __atomic_load_n(&port->next, __ATOMIC_RELAXED);
}

void sn_port_ask(enum sn_port_ask how)
{
    ask = how;
}
