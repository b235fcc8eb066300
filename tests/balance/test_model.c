/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balancer beside a simple model: an array with the worker of each connection. Random clients open
 * connections, send, and close; workers are added, drained and killed at the same time, and strangers flood
 * with SYNs. No connection may move, but those of a worker that was killed.
 *
 *     test_balance_model [OPERATIONS [CONNECTIONS]]
 *
 * An operation is a packet. Eight in nine connections live at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/sound.h"
#include "tests/balance/rig.h"
#include "tests/rnd.h"

enum { WORKERS = 40, BURST = 64, NONE = 0xffff };

/* A connection that is closed takes its turn again after its flow's time is over, or with a SYN at once. */
struct connection {
    uint16_t worker; /* NONE: not open */
    uint16_t last;   /* where it was before */
    uint16_t epoch;  /* of the worker: how often it has been killed */
};

static struct {
    struct rig rig;
    struct connection *connection;
    uint32_t connections, open;
    uint16_t killed[WORKERS];
    struct rnd rnd;
    uint64_t opened, moved, sent, floods, changes;
    const char *what;
    /* The burst that is made, and what it is about: a connection, or NONE for a stranger. */
    struct rig_packet packet[BURST];
    struct bal_packet burst[BURST];
    uint32_t about[BURST];
    uint8_t flags[BURST];
} f;

#define require(ok) ((ok) ? (void)0 : fail(__LINE__, #ok))
static void fail(int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s: after %" PRIu64 " packets: %s does not hold\n", __FILE__, line, f.what,
            f.sent, what);
    exit(1);
}

static bool is_up(uint32_t w)
{
    return f.rig.config.worker[w].used && f.rig.config.worker[w].state == BAL_UP;
}

static uint32_t count_up(void)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < WORKERS; w++) n += is_up(w);
    return n;
}

/* One worker comes, drains, dies, or rises again. */
static void change_workers(void)
{
    uint32_t w = rnd_below(&f.rnd, WORKERS), what = rnd_below(&f.rnd, 4);
    struct bal_worker *worker = &f.rig.config.worker[w];
    if (!worker->used) {
        rig_worker(&f.rig, w, 1)->weight = 1 + rnd_below(&f.rnd, 200);
    } else if (what == 0 && count_up() > 3) {
        worker->state = BAL_DRAINING;
    } else if (what == 1 && count_up() > 3) {
        if (worker->state != BAL_DOWN) f.killed[w]++;
        worker->state = BAL_DOWN;
    } else {
        worker->state = BAL_UP;
        worker->weight = 1 + rnd_below(&f.rnd, 200);
    }
    require(!rig_publish(&f.rig));
    f.changes++;
}

static void add_packet(uint32_t i, uint32_t about, uint8_t flags)
{
    /* A stranger's address is none of a client's. */
    uint32_t who = about == UINT32_MAX ? (uint32_t)rnd64(&f.rnd) : about;
    struct rig_end from = {rig_ip4((about == UINT32_MAX ? 0xb0000000u : 0x0c000000u) + who / 60000),
                           (uint16_t)(1024 + who % 60000)};
    rig_tcp(&f.packet[i], from, (struct rig_end){f.rig.config.service[1].vip, 80}, flags, 0);
    rig_tcp_numbers(&f.packet[i], flags & BAL_SYN ? 0 : 1, 0);
    f.burst[i] = f.packet[i].p;
    f.about[i] = about;
    f.flags[i] = flags;
}

/* The model's expectation for a packet of a connection. */
static void check(uint32_t i)
{
    struct connection *c = &f.connection[f.about[i]];
    require(f.burst[i].verdict == BAL_SEND);
    uint16_t went = (uint16_t)(f.burst[i].data[4] << 8 | f.burst[i].data[5]);
    require(went < WORKERS && f.rig.config.worker[went].used && f.rig.config.worker[went].state != BAL_DOWN);
    if (c->worker == NONE) {
        /* Nothing new for one that drains. A SYN after a RST, which anybody may have sent, stays. */
        require(is_up(went) || went == c->last);
        f.open++;
        f.opened++;
    } else if (went != c->worker) {
        require(f.killed[c->worker] != c->epoch);
        f.moved++;
    }
    c->worker = went;
    c->epoch = f.killed[went];
    if (!(f.flags[i] & BAL_RST)) return;
    c->last = c->worker;
    c->worker = NONE;
    f.open--;
}

/* A burst of clients' packets. With `handshake` a SYN's ACK follows at once: a connection that is only half
 * open may lose its place in a flood, which is no promise broken. */
static void one_burst(bool handshake)
{
    static uint32_t in_burst[BURST];
    uint32_t n = 0;
    while (n < BURST) {
        uint32_t c = rnd_below(&f.rnd, f.connections);
        bool again = false; /* each connection once: the model looks at a burst's end */
        for (uint32_t k = 0; k < n; k++) again |= in_burst[k] == c;
        if (again) continue;
        in_burst[n] = c;
        bool open = f.connection[c].worker != NONE;
        if (!open && handshake && n + 2 > BURST) continue;
        bool close = open && f.open > f.connections / 2 && !rnd_below(&f.rnd, 8);
        add_packet(n++, c, close ? BAL_RST | BAL_ACK : open ? BAL_ACK : BAL_SYN);
        if (open || !handshake) continue;
        in_burst[n] = c;
        add_packet(n++, c, BAL_ACK);
    }
    gw_balance_burst(f.rig.core, f.burst, BURST, f.rig.now += 5000);
    bal_core_keep(f.rig.core, f.rig.now);
    for (uint32_t i = 0; i < BURST; i++) check(i);
    f.sent += BURST;
}

/* The client's second segment: its connection is established, and no flood moves it. */
static void establish_all(void)
{
    for (uint32_t at = 0; at < f.connections;) {
        uint32_t n = 0;
        for (; n < BURST && at < f.connections; at++)
            if (f.connection[at].worker != NONE) add_packet(n++, at, BAL_ACK);
        gw_balance_burst(f.rig.core, f.burst, n, f.rig.now += 1000);
        for (uint32_t i = 0; i < n; i++) check(i);
        f.sent += n;
    }
}

/* Some of the established connections send on, and strangers send that many SYNs for each of their packets.
 */
static void flood(uint32_t strangers)
{
    uint32_t open = f.open;
    for (uint32_t c = 0; c < f.connections; c += 1 + rnd_below(&f.rnd, 2 * f.connections / 2000 + 1)) {
        uint32_t n = 0;
        if (f.connection[c].worker != NONE) add_packet(n++, c, BAL_ACK);
        for (uint32_t k = 0; k < strangers; k++) add_packet(n++, UINT32_MAX, BAL_SYN);
        gw_balance_burst(f.rig.core, f.burst, n, f.rig.now += 1000);
        for (uint32_t i = 0; i < n; i++)
            if (f.about[i] != UINT32_MAX) check(i);
        f.sent += n;
        f.floods += strangers;
    }
    require(f.open == open);
}

static void run(const char *what, enum bal_scheduler scheduler, uint64_t operations, uint32_t connections,
                uint32_t strangers)
{
    const struct bal_attr attr = {.flows = connections + connections / 2};
    f.what = what;
    f.connections = connections;
    f.open = 0;
    f.opened = f.moved = f.sent = f.floods = f.changes = 0;
    f.rnd.state = 0x9e3779b97f4a7c15u;
    memset(f.killed, 0, sizeof(f.killed));
    f.connection = malloc(connections * sizeof(*f.connection));
    require(f.connection && !rig_open(&f.rig, &attr));
    for (uint32_t i = 0; i < connections; i++) f.connection[i].worker = f.connection[i].last = NONE;
    rig_service(&f.rig, 1, false, BAL_TCP)->scheduler = (uint8_t)scheduler;
    for (uint32_t w = 0; w < WORKERS / 2; w++) rig_worker(&f.rig, w, 1);
    require(!rig_publish(&f.rig));
    while (f.sent < operations) {
        /* Without a flood clients come and go. In one, those that are established stay: half-open ones may
         * lose their place, which is the promise. */
        for (int k = 0; k < 500 && f.sent < operations; k++) {
            one_burst(strangers);
            if (!rnd_below(&f.rnd, connections < 200000 ? connections / 100 : 2000)) change_workers();
        }
        require(bal_core_is_sound(f.rig.core) && bal_is_sound(f.rig.bal));
        if (strangers) flood(strangers);
    }
    establish_all();
    struct bal_totals t;
    bal_totals(f.rig.bal, -1, &t);
    /* Two strangers may have one address and port, seldom. */
    require(t.opened <= f.opened + f.floods && t.opened + f.floods / 100 >= f.opened + f.floods);
    printf("%-22s %" PRIu64 " packets, %" PRIu64 " connections, %u open, %" PRIu64
           " changes of workers, %" PRIu64 " moved (all of killed workers), %" PRIu64
           " SYNs of strangers, %" PRIu64 " evicted\n",
           what, f.sent, f.opened, f.open, f.changes, f.moved, f.floods, t.evicted);
    free(f.connection);
    rig_close(&f.rig);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) / 4 : 150000;
    uint32_t connections = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4000;
    if (!n || connections < 1000) {
        fprintf(stderr, "usage: test_balance_model [OPERATIONS [CONNECTIONS]], of which 1000 or more\n");
        return 2;
    }
    run("rr", BAL_RR, n, connections, 0);
    run("mh", BAL_MH, n, connections, 0);
    run("wlc, under a flood", BAL_WLC, n, connections, 10);
    run("p2c, under a flood", BAL_P2C, n, connections, 10);
    return 0;
}
