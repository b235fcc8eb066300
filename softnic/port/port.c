/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/port/port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/roce/hdr.h"

/* How soon to try again to hand over frames that are due and were not taken. */
#define AGAIN_NS 20000u

enum { RX_ROOM = 64, DRY = 16, DRY_EVERY = 8, SOCKETS_TURN = 16 };

/* What an unkind network hands to the engine. Its bytes stay until the next receive. */
struct received {
    struct sn_frame *frames; /* the caller's */
    int n, max;
    uint8_t data[RX_ROOM][SN_FAULT_FRAME];
};

struct sn_wire {
    struct sn_udp *udp; /* one of the two */
    struct sn_eth *eth;
    struct sn_host *host; /* NULL: nothing goes through shared memory */
    unsigned dry;         /* times that the sockets had nothing, in a row */
    unsigned met, turn;
    bool catch_up;            /* until the sockets are empty they come first */
    struct sn_pcap *pcap;     /* NULL: no capture */
    struct sn_fault *tx, *rx; /* NULL: a kind network */
    struct received *received;
    char why_no_host[256];
    struct sn_faults faults;
    uint64_t seed;
    uint64_t
        next; /* when the fault layers have something due; written inside the engine's lock, read outside */
};

static _Thread_local enum sn_wire_ask ask;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the sockets, and the capture at them -------------------------------------------------------------- */

static int socket_send(struct sn_wire *wire, const struct sn_frame *frames, int n)
{
    return wire->eth ? sn_eth_send(wire->eth, frames, n) : sn_udp_send(wire->udp, frames, n);
}

static int lower_send(struct sn_wire *wire, const struct sn_frame *frames, int n)
{
    uint64_t time;
    int taken = 0;

    /* What is in this process's memory is of no use elsewhere; who does not answer gets the bytes. */
    if (frames[0].rndv) return 1;
    while (taken < n && !frames[taken].rndv) taken++;
    n = taken;
    if (!wire->pcap) return socket_send(wire, frames, n);
    time = sn_pcap_now(); /* before the answers' */
    taken = socket_send(wire, frames, n);
    sn_pcap_frames(wire->pcap, frames, taken, true, time);
    return taken;
}

/*
 * To ask the sockets is a system call or two. A thread that polls, with peers that send through shared
 * memory, would notice their frames later for it: so when the sockets have had nothing for a while it asks
 * them only now and then.
 */
static bool spare_the_sockets(struct sn_wire *wire)
{
    if (ask == SN_ASK_NEVER) return true;
    if (ask == SN_ASK_ALWAYS || !wire->host || !sn_host_senders(wire->host) || wire->dry < DRY) return false;
    return wire->dry++ % DRY_EVERY != 0;
}

static int lower_recv(struct sn_wire *wire, struct sn_frame *frames, int max, bool *more)
{
    int n;

    *more = false;
    if (!wire->catch_up && (wire->eth || !sn_udp_holds_frames(wire->udp)) && spare_the_sockets(wire))
        return 0;
    n = wire->eth ? sn_eth_recv(wire->eth, frames, max, more) : sn_udp_recv(wire->udp, frames, max, more);
    wire->dry = n || *more ? 0 : wire->dry + 1;
    if (wire->pcap) sn_pcap_frames(wire->pcap, frames, n, false, sn_pcap_now());
    return n;
}

/* ---- the unkind network -------------------------------------------------------------------------------- */

static bool send_one(void *ctx, const struct sn_frame *frame)
{
    return lower_send(ctx, frame, 1) == 1;
}

static bool receive_one(void *ctx, const struct sn_frame *frame)
{
    struct received *r = ((struct sn_wire *)ctx)->received;

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

static void set_next(struct sn_wire *wire, uint64_t now)
{
    uint64_t next = SN_NEVER;

    if (wire->tx) next = sn_fault_next(wire->tx);
    if (wire->rx) next = earlier(next, sn_fault_next(wire->rx));
    if (next <= now) next = now + AGAIN_NS;
    /* Relaxed: a time to wake up at; whoever wakes looks again inside the lock. */
    __atomic_store_n(&wire->next, next, __ATOMIC_RELAXED);
}

/* Frames then go past it, in batches. */
static bool kind(const struct sn_fault *fault)
{
    return !fault || sn_fault_idle(fault);
}

/* Those for peers of this host through shared memory, the others as ever, all in their order. */
static int send_near(struct sn_wire *wire, const struct sn_frame *frames, int n)
{
    int i = 0, taken = 1;

    while (i < n && taken > 0) {
        int others = 1;

        /* Its answer alone says which way a frame goes: a peer may ask for the wire at any moment. */
        taken = sn_host_send(wire->host, &frames[i]);
        if (taken < 0) {
            while (i + others < n && !sn_host_reaches(wire->host, &frames[i + others])) others++;
            taken = lower_send(wire, frames + i, others);
        }
        i += taken;
        if (taken < others) break;
    }
    sn_host_sent(wire->host);
    return i;
}

static int wire_send(void *ctx, const struct sn_frame *frames, int n)
{
    struct sn_wire *wire = ctx;
    int i;

    if (wire->host && kind(wire->tx)) return send_near(wire, frames, n);
    if (kind(wire->tx)) return lower_send(wire, frames, n);
    uint64_t now = now_ns();
    for (i = 0; i < n; i++) {
        if (!sn_fault_send(wire->tx, now, &frames[i])) break;
    }
    set_next(wire, now);
    return i;
}

/* What is due comes first. Of the sockets' frames no more are taken than there is room for if each comes
 * twice. */
static int receive_unkindly(struct sn_wire *wire, struct sn_frame *frames, int max, bool *more, uint64_t now)
{
    struct received *r = wire->received;
    struct sn_frame in[RX_ROOM / 2];
    int room, n = 0;

    r->frames = frames;
    r->n = 0;
    r->max = max < RX_ROOM ? max : RX_ROOM;
    sn_fault_run(wire->rx, now);
    room = (r->max - r->n) / 2;
    *more = room == 0;
    if (room) n = lower_recv(wire, in, room, more);
    for (int i = 0; i < n; i++) {
        in[i].icrc_checked = false; /* it may not stay as it is */
        sn_fault_send(wire->rx, now, &in[i]);
    }
    return r->n;
}

/*
 * When a peer's first frames are found in memory, what it sent before lies in our sockets, and comes first:
 * unreliable connections take nothing that was overtaken. And peers that send through memory without a pause do
 * not keep others from being heard.
 */
static bool sockets_first(struct sn_wire *wire)
{
    unsigned met = sn_host_met(wire->host);

    if (met != wire->met) wire->catch_up = true;
    wire->met = met;
    return kind(wire->tx) && kind(wire->rx) && (wire->catch_up || ++wire->turn % SOCKETS_TURN == 0);
}

/* The sockets had no frames. Is that all? If another thread is at them it brings us back. */
static bool caught_up(struct sn_wire *wire, bool *more)
{
    enum sn_udp_left left = sn_udp_left(wire->udp);

    wire->catch_up = left != SN_UDP_NOTHING;
    *more = left == SN_UDP_PERHAPS;
    return !wire->catch_up;
}

static int wire_recv(void *ctx, struct sn_frame *frames, int max, bool *more)
{
    struct sn_wire *wire = ctx;
    uint64_t now;
    int n;

    if (wire->host) {
        if (sockets_first(wire)) {
            n = lower_recv(wire, frames, max, more);
            if (!n && wire->catch_up && !caught_up(wire, more)) return 0;
            *more = true;
            if (n) return n;
        }
        n = sn_host_recv(wire->host, frames, max);
        *more = true;
        if (n || sn_host_met(wire->host) != wire->met) return n;
    }
    if (kind(wire->tx) && kind(wire->rx)) return lower_recv(wire, frames, max, more);
    now = now_ns();
    if (wire->tx) sn_fault_run(wire->tx, now);
    n = !kind(wire->rx) ? receive_unkindly(wire, frames, max, more, now)
                        : lower_recv(wire, frames, max, more);
    set_next(wire, now);
    return n;
}

/* A station on an Ethernet link has its address to itself: there is no slot that another could take. */
static struct sn_owner wire_owner(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    struct sn_wire *wire = ctx;

    if (wire->eth) return (struct sn_owner){.kind = SN_OWNER_UNKNOWN};
    return sn_udp_owner(wire->udp, gid, qpn >> 16);
}

const struct sn_wire_ops sn_wire_ops = {.send = wire_send, .recv = wire_recv, .owner = wire_owner};

static int set_one(struct sn_wire *wire, struct sn_fault **fault, const struct sn_fault_params *params,
                   const uint64_t *seed, sn_fault_sink *sink)
{
    uint64_t now = now_ns();

    if (!*fault && sn_fault_any(params)) {
        /* Not the same chances both ways: what happens to a request would happen to its answer. */
        *fault = sn_fault_new(params, sink == receive_one ? ~wire->seed : wire->seed, now, sink, wire);
        if (!*fault) return -ENOMEM;
    } else if (*fault) {
        sn_fault_set(*fault, params, now);
        if (seed) sn_fault_seed(*fault, sink == receive_one ? ~*seed : *seed);
    }
    return 0;
}

int sn_wire_set_faults(struct sn_wire *wire, const struct sn_faults *faults, const uint64_t *seed)
{
    int err;

    if (seed) wire->seed = *seed;
    if (!wire->received && sn_fault_any(&faults->rx)) wire->received = calloc(1, sizeof(*wire->received));
    if (!wire->received && sn_fault_any(&faults->rx)) return -ENOMEM;
    err = set_one(wire, &wire->tx, &faults->tx, seed, send_one);
    if (!err) err = set_one(wire, &wire->rx, &faults->rx, seed, receive_one);
    if (!err) wire->faults = *faults;
    /* What is to be disturbed must go where it can be. */
    if (!err && wire->host) sn_host_pause(wire->host, sn_faults_any(faults));
    return err;
}

void sn_wire_faults(const struct sn_wire *wire, struct sn_wire_faults *out)
{
    memset(out, 0, sizeof(*out));
    out->set = wire->faults;
    if (wire->tx) sn_fault_stats(wire->tx, &out->tx);
    if (wire->rx) sn_fault_stats(wire->rx, &out->rx);
}

/* ---- making and ending --------------------------------------------------------------------------------- */

static bool ask_name(void *ctx, const uint8_t gid[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE])
{
    const struct sn_wire *wire = ctx;

    return sn_udp_ask(wire->udp, gid, slot, nonce);
}

static void told_name(void *ctx, const uint8_t gid[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE],
                      const uint8_t name[SN_MEET_NAME])
{
    const struct sn_wire *wire = ctx;

    sn_host_told(wire->host, gid, slot, nonce, name);
}

/* Without it everything goes over the sockets. Frames that are to be captured or disturbed do anyhow. */
static void open_host(struct sn_wire *wire, const struct sn_config *config)
{
    struct sn_host_config c = {
        .slot = sn_wire_slot(wire), .copy = config->local == SN_LOCAL_CMA, .ask = ask_name, .ask_ctx = wire};

    memcpy(c.gid, config->addr.gid, 16);
    if (config->local == SN_LOCAL_OFF)
        snprintf(wire->why_no_host, sizeof(wire->why_no_host), "GPUWIRE_NIC says local=off");
    else if (wire->eth)
        snprintf(wire->why_no_host, sizeof(wire->why_no_host), "everything goes over raw Ethernet");
    else if (config->pcap[0] || sn_faults_any(&config->fault))
        snprintf(wire->why_no_host, sizeof(wire->why_no_host), "packets are captured or disturbed");
    else
        sn_host_open(&c, &wire->host, wire->why_no_host);
    if (wire->host)
        sn_udp_on_hello(wire->udp, &(struct sn_udp_hello){sn_host_name(wire->host), told_name, wire});
}

int sn_wire_open(const struct sn_config *config, struct sn_wire **out, char why[256])
{
    struct sn_wire *wire = calloc(1, sizeof(*wire));
    int err = wire ? 0 : -ENOMEM;

    if (!err) {
        wire->next = SN_NEVER;
        wire->seed = config->seed;
        err = sn_wire_set_faults(wire, &config->fault, NULL);
    }
    if (err)
        snprintf(why, 256, "out of memory");
    else if (config->eth.on)
        err = sn_eth_open(&config->addr, &config->eth, config->seed, &wire->eth, why);
    else
        err = sn_udp_open(&config->addr, config->seed, &wire->udp, why);
    if (!err && wire->udp && sn_udp_threads(wire->udp, config->threads)) {
        snprintf(why, 256, "out of memory");
        err = -ENOMEM;
    }
    if (!err && config->pcap[0])
        err = sn_pcap_open(config->pcap, config->pcap_max, config->addr.gid, &wire->pcap, why);
    if (err) {
        sn_wire_close(wire);
        return err;
    }
    if (!config->no_ecn && wire->udp) sn_udp_mark(wire->udp, ROCE_ECT);
    open_host(wire, config);
    if (config->no_gso && wire->udp) sn_udp_no_segments(wire->udp);
    *out = wire;
    return 0;
}

void sn_wire_on_refused(struct sn_wire *wire, sn_udp_refused *refused)
{
    if (wire->udp) sn_udp_on_refused(wire->udp, refused);
}

void sn_wire_close(struct sn_wire *wire)
{
    if (!wire) return;
    sn_fault_free(wire->tx);
    sn_fault_free(wire->rx);
    free(wire->received);
    sn_pcap_close(wire->pcap);
    sn_host_close(wire->host);
    sn_udp_close(wire->udp);
    sn_eth_close(wire->eth);
    free(wire);
}

int sn_wire_fetch(struct sn_wire *wire)
{
    return sn_udp_fetch(wire->udp);
}

unsigned sn_wire_slot(const struct sn_wire *wire)
{
    return wire->eth ? sn_eth_slot(wire->eth) : sn_udp_slot(wire->udp);
}

uint16_t sn_wire_port(const struct sn_wire *wire)
{
    return wire->eth ? sn_eth_port(wire->eth) : sn_udp_port(wire->udp);
}

int sn_wire_sockets(const struct sn_wire *wire, int fds[SN_WIRE_FDS])
{
    if (!wire->eth) return sn_udp_fds(wire->udp, fds);
    fds[0] = sn_eth_fd(wire->eth);
    return 1;
}

int sn_wire_fds(const struct sn_wire *wire, int fds[SN_WIRE_FDS])
{
    int n = sn_wire_sockets(wire, fds);

    if (wire->host) fds[n++] = sn_host_fd(wire->host);
    return n;
}

int sn_wire_claim_fds(const struct sn_wire *wire, int fds[SN_WIRE_CLAIMS])
{
    if (wire->eth)
        fds[0] = sn_eth_claim_fd(wire->eth);
    else
        sn_udp_claim_fds(wire->udp, fds);
    return wire->eth ? fds[0] >= 0 : SN_WIRE_CLAIMS;
}

struct sn_host *sn_wire_host(const struct sn_wire *wire)
{
    return wire->host;
}

const char *sn_wire_why_no_host(const struct sn_wire *wire)
{
    return wire->why_no_host;
}

uint32_t sn_wire_room(const struct sn_wire *wire)
{
    return wire->eth ? sn_eth_room(wire->eth) : sn_udp_room(wire->udp);
}

void sn_wire_local_text(const struct sn_wire *wire, char *text, size_t size)
{
    struct sn_host_info i;

    if (!wire->host) {
        snprintf(text, size, "over the wire like others: %s", wire->why_no_host);
        return;
    }
    sn_host_info(wire->host, &i);
    if (i.copy && !i.why[0])
        snprintf(text, size,
                 "by copies between processes (cma; a GPU's memory, where this process uses that GPU or one "
                 "that reaches it, by CUDA IPC); what is short "
                 "and no WRITE or READ, through shared memory");
    else
        snprintf(text, size, "through shared memory (ring), not by copies: %s",
                 i.copy ? i.why : "GPUWIRE_NIC says local=ring");
}

const char *sn_wire_note(const struct sn_wire *wire)
{
    return wire->eth ? "" : sn_udp_note(wire->udp);
}

bool sn_wire_note_matters(const struct sn_wire *wire)
{
    return wire->udp && sn_udp_note_matters(wire->udp);
}

bool sn_wire_segments(const struct sn_wire *wire)
{
    return wire->udp && sn_udp_segments(wire->udp);
}

bool sn_wire_has_port(const struct sn_wire *wire)
{
    int fds[2];

    return wire->udp && sn_udp_fds(wire->udp, fds) == 2;
}

void sn_wire_stats(const struct sn_wire *wire, struct sn_udp_stats *stats)
{
    if (wire->eth)
        sn_eth_stats(wire->eth, stats);
    else
        sn_udp_stats(wire->udp, stats);
    if (wire->host) stats->memory_lost = sn_host_lost(wire->host);
}

struct sn_pcap *sn_wire_pcap(const struct sn_wire *wire)
{
    return wire->pcap;
}

uint64_t sn_wire_next(const struct sn_wire *wire)
{
    return __atomic_load_n(&wire->next, __ATOMIC_RELAXED);
}

void sn_wire_ask(enum sn_wire_ask how)
{
    ask = how;
}
