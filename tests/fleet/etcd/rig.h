/* SPDX-License-Identifier: Apache-2.0 */
/* Real etcds for tests: on free ports of the loopback, in a folder of their own, which end with the test. */
#ifndef TESTS_FLEET_ETCD_RIG_H
#define TESTS_FLEET_ETCD_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/fleet/wire/conn.h"

enum { RIG_MEMBERS = 3 };

struct rig {
    struct fleet_loop *loop;
    int n;
    char folder[64];
    uint16_t port[RIG_MEMBERS], peer[RIG_MEMBERS];
    pid_t pid[RIG_MEMBERS]; /* 0: it does not run */
    char urls[256];         /* of all members */
    const char *more[8];    /* options for etcd */
    bool secret;            /* by TLS, for which `more` has the files */
};

/* Is there an etcd on this host? Otherwise the test is skipped (77). */
bool rig_has_etcd(void);
/* Starts n members, and makes a loop. 0, or -1 after saying why. */
int rig_open(struct rig *r, int n);
void rig_close(struct rig *r);
/* One member; its data stays. */
int rig_start(struct rig *r, int i);
void rig_kill(struct rig *r, int i);
/* Which member leads etcd's own election; -1: none is known. */
int rig_raft_leader(struct rig *r);
/* etcdctl with these arguments (by the shell): its exit code. What it said is in `out`. */
int rig_ctl(struct rig *r, const char *arguments, char *out, size_t size);

/* Runs the loop until `is`(ctx), or ms have passed: then false. */
bool rig_until(struct rig *r, bool (*is)(void *ctx), void *ctx, int ms);
/* Runs it for that time. */
void rig_run(struct rig *r, int ms);

#endif
