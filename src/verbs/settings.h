/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GW_VERBS_SETTINGS_H
#define GW_VERBS_SETTINGS_H

#include <stdbool.h>

/* The local ACK timeout: 4.096 us * 2^18 = 1.07 s. With seven repeats a connection outlives a link that is
 * down for some seconds, and a switch that finds its ports again. */
enum { GW_ACK_TIMEOUT = 18 };

/* GPUWIRE_GID_INDEX, _PKEY, _SL, _TC, _TIMEOUT, _GRH, _RELAXED_ORDERING and _GPU_FLUSH: defaults for what a
 * program leaves open. */
struct gw_settings {
    int gid_index; /* -1: the best one */
    int pkey;      /* a key, not its index; -1: the first of the table */
    int sl, tc, timeout;
    int grh, relaxed; /* 1: asked for */
    int flush;        /* of data in GPU memory: 1 always, 0 never, -1 as the GPU says */
    bool has_timeout; /* it was set */
};

/* 0, or -EINVAL with a line that names the variable. */
int gw_settings_read(struct gw_settings *s);

#endif
