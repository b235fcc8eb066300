/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is about to end serves what it has taken on. */
#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/server/lifecycle/server_impl.h"

#define LOOK_NS    2000000u
#define GOODBYE_NS 20000000u /* for the NIC to bring the last answers to their clients */

struct drain {
    struct gw_server *server;
    uint64_t deadline, house; /* house: when the next round of housekeeping is due */
};

static uint32_t calls_of(const struct gw_server *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s->workers; i++) n += gw_server_taken(s->worker[i]);
    for (size_t i = 0; i < s->leavings; i++) n += gw_server_taken(s->leaving[i]);
    return n;
}

/* Requests and answers of the doors. */
static bool doors_are_busy(const struct gw_server *s)
{
    bool busy = calls_of(s) != 0;
    for (uint32_t i = 0; i < s->doors && !busy; i++)
        busy = s->door[i].busy && s->door[i].busy(s->door[i].door);
    return busy;
}

static bool serve_drain_somebody_waits(const struct gw_server *s)
{
    for (size_t i = 0; i < s->workers; i++)
        if (gw_server_waiting(s->worker[i])) return true;
    return false;
}

/* A loop answers questions between two batches only: whatever it had in work has been answered then. */
static bool somebody_is_at_work(const struct gw_server *s)
{
    uint32_t activity;
    for (size_t i = 0; i < s->workers; i++)
        if (!gw_session_heard(gw_worker_sessions(s->worker[i]), 0, &activity)) return true;
    return false;
}

static void serve_drain_nap(uint64_t ns)
{
    const struct timespec t = {.tv_nsec = (long)ns};
    nanosleep(&t, NULL);
}

/* Until it is no longer so. */
static int wait_while(struct drain *d, bool (*so)(const struct gw_server *s))
{
    uint64_t pause = GW_SERVER_HOUSEKEEPING_NS;
    while (so(d->server)) {
        if (gw_deadline(0) >= d->deadline) return -ETIMEDOUT;
        if (gw_deadline(0) >= d->house) {
            pause = gw_server_keep_house(d->server, pause);
            d->house = gw_deadline(pause);
        }
        serve_drain_nap(LOOK_NS);
    }
    return 0;
}

int gw_server_drain(struct gw_server *s, uint64_t deadline_ns)
{
    struct drain d = {.server = s, .deadline = deadline_ns};
    if (wait_while(&d, doors_are_busy))
        return gw_error(-ETIMEDOUT, "%u requests of HTTP and gRPC are still under way", calls_of(s));
    for (size_t i = 0; i < s->workers; i++) gw_worker_close(s->worker[i]);
    int err = wait_while(&d, serve_drain_somebody_waits);
    for (size_t i = 0; i < s->workers; i++) gw_session_ask(gw_worker_sessions(s->worker[i]), 0);
    if (!err) err = wait_while(&d, somebody_is_at_work);
    if (err) return gw_error(-ETIMEDOUT, "requests by RDMA are still under way");
    serve_drain_nap(GOODBYE_NS);
    return 0;
}
