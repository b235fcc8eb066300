/* SPDX-License-Identifier: Apache-2.0 */
/* maglev.h: which worker has which row of a service's table. Pure functions, any thread. */
#ifndef GW_SRC_BALANCE_MAGLEV_H
#define GW_SRC_BALANCE_MAGLEV_H

#include <stdbool.h>
#include <stdint.h>

struct bal_candidate {
    uint16_t worker;
    bool up;
    uint32_t weight;
    uint64_t name; /* a hash of its address and port, the same on each balancer */
};
/* Fills rows with weighted Maglev: each candidate gets its share, and a change moves few of the others' rows.
 * `rows` is a prime, or 1 where there is one candidate at most. -ENOMEM. */
int bal_maglev(const struct bal_candidate *c, uint32_t n, uint64_t seed, uint16_t *row, uint32_t rows);
struct bal_rows {
    uint16_t *up, *all; /* of the candidates that are up; of all, or NULL */
    uint32_t count;
};
/* The same by weighted rendezvous: a candidate more or less moves its own rows and no other. */
void bal_rendezvous(const struct bal_candidate *c, uint32_t n, uint64_t seed, const struct bal_rows *rows);

#endif
