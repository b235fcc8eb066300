/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sn_wire {
    struct sn_udp *udp;
    struct sn_fault *fault; /* NULL: a kind network */
    uint64_t
        next; /* when the fault layer has something due; written inside the engine's lock, read outside */
};

static _Thread_local bool nothing_waits;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool send_one(void *ctx, const uint8_t to[16], const void *data, uint32_t len)
{
    struct sn_wire *wire = ctx;
    struct sn_frame frame = {.len = len, .data = (void *)data};

    memcpy(frame.dst_gid, to, 16);
    return sn_udp_send(wire->udp, &frame, 1) == 1;
}

static void set_next(struct sn_wire *wire)
{
    /* Relaxed: a time to wake up at; whoever wakes looks again inside the lock. */
    __atomic_store_n(&wire->next, sn_fault_next(wire->fault), __ATOMIC_RELAXED);
}

static int wire_send(void *ctx, const struct sn_frame *frames, int n)
{
    struct sn_wire *wire = ctx;
    int i;

    if (!wire->fault) return sn_udp_send(wire->udp, frames, n);
    uint64_t now = now_ns();
    for (i = 0; i < n; i++) {
        if (!sn_fault_send(wire->fault, now, frames[i].dst_gid, frames[i].data, frames[i].len)) break;
    }
    set_next(wire);
    return i;
}

static int wire_recv(void *ctx, struct sn_frame *frames, int max, bool *more)
{
    struct sn_wire *wire = ctx;

    if (wire->fault) {
        sn_fault_run(wire->fault, now_ns());
        set_next(wire);
    }
    *more = false;
    if (nothing_waits && !sn_udp_holds_frames(wire->udp)) return 0;
    return sn_udp_recv(wire->udp, frames, max, more);
}

const struct sn_wire_ops sn_wire_ops = {.send = wire_send, .recv = wire_recv};

int sn_wire_open(const struct sn_config *config, struct sn_wire **out, char why[256])
{
    const struct sn_fault_params *fault = &config->fault;
    struct sn_wire *wire = calloc(1, sizeof(*wire));
    int err = -ENOMEM;

    if (wire) {
        wire->next = SN_NEVER;
        if (sn_fault_any(fault)) wire->fault = sn_fault_new(fault, config->seed, send_one, wire);
    }
    if (!wire || (sn_fault_any(fault) && !wire->fault)) {
        snprintf(why, 256, "out of memory");
    } else {
        err = sn_udp_open(&config->addr, config->seed, &wire->udp, why);
    }
    if (err) {
        sn_wire_close(wire);
        return err;
    }
    *out = wire;
    return 0;
}

void sn_wire_close(struct sn_wire *wire)
{
    if (!wire) return;
    sn_fault_free(wire->fault);
    sn_udp_close(wire->udp);
    free(wire);
}

unsigned sn_wire_slot(const struct sn_wire *wire)
{
    return sn_udp_slot(wire->udp);
}

uint16_t sn_wire_port(const struct sn_wire *wire)
{
    return sn_udp_port(wire->udp);
}

int sn_wire_fds(const struct sn_wire *wire, int fds[2])
{
    return sn_udp_fds(wire->udp, fds);
}

const char *sn_wire_note(const struct sn_wire *wire)
{
    return sn_udp_note(wire->udp);
}

void sn_wire_stats(const struct sn_wire *wire, struct sn_udp_stats *stats)
{
    sn_udp_stats(wire->udp, stats);
}

uint64_t sn_wire_next(const struct sn_wire *wire)
{
    return __atomic_load_n(&wire->next, __ATOMIC_RELAXED);
}

void sn_wire_expect_nothing(bool nothing)
{
    nothing_waits = nothing;
}
