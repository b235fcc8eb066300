/* SPDX-License-Identifier: Apache-2.0 */
/* duo.h: two connected queue pairs of two nodes (and a third node that watches), for tests of single
 * situations. */
#ifndef TESTS_SIM_DUO_H
#define TESTS_SIM_DUO_H

#include "tests/sim/rig.h"

enum { DUO_SQ = 16, DUO_RQ = 8, DUO_CQ = 64, DUO_MS = 1000000 };

struct duo {
    struct rig rig;
    struct rig_cq cq[2];
    struct rig_qp qp[2];
    struct rig_link link;
};

extern struct duo duo;

/* Both ready to send, on a clean network, in hostile mode. change: 0, or applied to the link before
 * connecting. */
void duo_start(void (*change)(struct rig_link *link));
void duo_stop(void);
void duo_connect(void);
void duo_run(uint64_t ns);

/* Addresses and keys of node n's memory. */
uint64_t duo_addr(int n, uint32_t off);
uint32_t duo_key(int n);
uint8_t *duo_mem(int n, uint32_t off);

/* Posts and rings, from side n; they return the WQE's index. */
uint16_t duo_rdma(int n, uint32_t opcode, uint64_t raddr, uint32_t rkey, uint64_t addr, uint32_t len,
                  uint32_t lkey);
uint16_t duo_send(int n, uint64_t addr, uint32_t len, uint32_t lkey);
uint16_t duo_atomic(int n, uint64_t raddr, uint32_t rkey, uint64_t add, uint64_t addr, uint32_t lkey);
void duo_posted(int n, uint32_t wqebbs); /* record and ring, for who built a WQE by hand */
void duo_recv(int n, uint64_t addr, uint32_t len, uint32_t lkey);

/* Asserts that the next completion of side n is this one. syndrome 0: success. */
void duo_expect_sent(int n, uint16_t index, uint8_t syndrome);
void duo_expect_received(int n, uint16_t number, uint8_t syndrome, uint32_t bytes);
void duo_expect_nothing(int n);
void duo_expect_state(int n, int state);
/* After `index` failed with `syndrome`, the n work requests after it come back as flushed. */
void duo_expect_failure(int side, uint16_t index, uint8_t syndrome, uint32_t n);
void duo_expect_untouched(int n); /* its memory is as duo_start made it */

#endif
