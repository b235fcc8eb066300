/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the kinds of checks: each kind is a table of functions, in a file of its own. */
#ifndef GW_BALANCE_CONTROL_PROBE_IMPL_H
#define GW_BALANCE_CONTROL_PROBE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/balance/control/model.h"

struct gw_bal_http; /* probe_http.c */

struct gw_bal_probe {
    uint32_t worker; /* its id: the worker itself may be gone when the check ends */
    int fd;          /* -1: the place is free, or what is tried has no descriptor yet */
    uint8_t busy, connected;
    uint8_t at;       /* which of the things that the check tries */
    uint8_t reserved; /* a script may be one of them */
    int weight;       /* that a script has set; -1: none */
    uint64_t deadline_ns, now_ns;
    struct gw_bal_addr addr; /* the worker's, and its port */
    uint16_t port;
    struct gw_bal_check check;
    struct gw_bal_http *http;
    pid_t pid; /* of a script */
};

/* One kind of check.
 *
 *   begin  starts a check: 0 with p->fd, or -1 with the reason.
 *   run    goes on, when the descriptor is ready or time has passed. 1: the worker is well. 0: not yet. -1
 *          with the reason.
 *   waits  names the events of poll that the check waits for.
 *   end    gives back what `begin` took, except p->fd. NULL: there is nothing to give back. */
struct gw_bal_probe_kind {
    int (*begin)(struct gw_bal_probe *p, char *why, size_t size);
    int (*run)(struct gw_bal_probe *p, char *why, size_t size);
    short (*waits)(const struct gw_bal_probe *p);
    void (*end)(struct gw_bal_probe *p);
    bool (*silence)(const struct gw_bal_probe *p); /* is no answer in time a good one? NULL: no */
};

extern const struct gw_bal_probe_kind gw_bal_probe_http, gw_bal_probe_udp, gw_bal_probe_script;

/* The step that the probe tries now. */
const struct gw_bal_ask *gw_bal_probe_ask(const struct gw_bal_probe *p);
/* Begins to connect a socket (SOCK_STREAM or SOCK_DGRAM) from and to where the check says. 0, or -1. */
int gw_bal_probe_connect(struct gw_bal_probe *p, int type, char *why, size_t size);
/* Is it connected? 1, 0, or -1 with the reason. */
int gw_bal_probe_connected(struct gw_bal_probe *p, char *why, size_t size);
/* "WHAT: the error's name"; returns -1. */
int gw_bal_probe_fails(const char *what, int err, char *why, size_t size);

/* Is this the first line of a good answer? 1: yes. 0: it has not all come. -1: no, and `why` says so. `good`:
 * GW_BAL_RANGES of them, or NULL for 200 to 299. */
int gw_bal_http_status(const char *line, unsigned bytes, const struct gw_bal_range *good, char *why,
                       unsigned size);

#endif
