/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel whose blocks each follow a script of calls on channels, and check every byte that they receive. */
#ifndef GW_TESTS_SOCKET_CHANNEL_KERNELS_H
#define GW_TESTS_SOCKET_CHANNEL_KERNELS_H

#include <gpuwire/channel.h>

enum channel_op { CH_SEND, CH_RECV, CH_RESERVE, CH_BORROW, CH_FINISH };

#define CH_WRONG (-1000) /* a received message is not as it was sent */

/* n calls of one kind. Message k of a step has the bytes that seed + k gives. */
struct channel_step {
    uint32_t op, form; /* enum channel_op, enum gw_group */
    uint32_t ch, n;    /* on all[ch] */
    uint32_t each;     /* thread form: thread t calls it too, on all[ch + t] with its own seed */
    uint32_t any;      /* receives: messages of any seed are right, each seed's in order */
    uint64_t seed;
    uint64_t limit_ns; /* per call; 0: do not wait */
};

#define CH_STEPS 8

struct channel_result {
    uint32_t done; /* calls that returned 0, of all threads */
    int32_t err;   /* the first other result */
};

struct channel_script {
    struct channel_step step[CH_STEPS];
    uint32_t steps;
};

struct channel_args {
    struct gw_channel *all;
    const struct channel_script *script; /* one per block */
    struct channel_result *result;       /* CH_STEPS per block */
    uint8_t *buffer;                     /* a message's bytes, rounded up to 16, per thread */
};

#endif
