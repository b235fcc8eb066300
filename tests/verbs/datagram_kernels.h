/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads send datagrams through one queue pair to several others, and take in what arrives there. */
#ifndef GW_TESTS_DATAGRAM_KERNELS_H
#define GW_TESTS_DATAGRAM_KERNELS_H

#include <gpuwire/verbs_device.h>

enum { CROWD_TO = 3, CROWD_WORDS = 6 /* most words of a datagram */, CROWD_ROOM = GW_GRH + 4 * CROWD_WORDS };

enum crowd_form { CROWD_THREAD, CROWD_WARP, CROWD_BLOCK };

struct crowd_args {
    struct gw_ah_handle ah;
    struct gw_qp_handle *from, *to[CROWD_TO];
    struct gw_cq_handle *from_cq, *to_cq[CROWD_TO];
    uint32_t from_qpn, qpn[CROWD_TO], qkey;
    uint32_t each;      /* datagrams of each thread */
    uint32_t warp;      /* sent by the warp form */
    uint32_t form;      /* of the fast calls: enum crowd_form */
    uint32_t recvs;     /* posted to each receiver */
    uint64_t send_addr; /* CROWD_WORDS words for each thread, */
    uint32_t *send;     /* as the executor sees them; */
    uint64_t recv_addr; /* recvs places of CROWD_ROOM bytes for each receiver */
    uint8_t *recv;
    uint32_t lkey;
    uint64_t limit_ns;
    uint32_t *seen;  /* per thread: how many of its datagrams have arrived */
    uint32_t *count; /* [0] completions of sends, [1] what was wrong, [2] threads that gave up */
};

#endif
