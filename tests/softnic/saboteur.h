/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saboteur.h: a connection that shares NICs with others and does what it must not: with keys of other
 * protection domains, past the end of its own region, with WQEs of random bytes, to a peer that is not there.
 * All of it has to fail, and nobody else may notice.
 */
#ifndef TESTS_SOFTNIC_SABOTEUR_H
#define TESTS_SOFTNIC_SABOTEUR_H

#include "tests/softnic/app.h"

enum { SABOTEUR_MEM = 8192 };

struct saboteur {
    struct world *w;
    struct saboteur_end {
        struct world_nic *n;
        struct sn_pd *pd;
        struct sn_uar *uar;
        struct sn_mr *mr;
        struct app_cq cq;
        struct app_qp qp;
        uint8_t *mem;
    } end[2];
    bool posted, failed;
};

/* On two NICs that already have other users. */
void saboteur_up(struct saboteur *s, struct world *w, unsigned from, unsigned to);
/* Tries something; after it failed, and both ends were reset, something else. key and va are another's at NIC
 * `to`. */
void saboteur_step(struct saboteur *s, uint32_t key, uint64_t va);
/* Whether its own memory is as it should be: nothing it tried may have worked. */
bool saboteur_harmless(const struct saboteur *s);
void saboteur_down(struct saboteur *s);

#endif
