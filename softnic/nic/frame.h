/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h: the meaning of a frame's addresses, for the engine and for the threads that check frames before
 * it. Any thread. */
#ifndef SOFTNIC_NIC_FRAME_H
#define SOFTNIC_NIC_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"
#include "src/roce/icrc.h"

/* The part of an ICRC between two addresses, but for the source port and the ID. */
struct roce_path sn_path_between(const uint8_t src[16], const uint8_t dst[16]);

/* The slot that sent the frame; SN_NO_SLOT: it came from another host, where the port may be any. */
static inline int sn_frame_slot(const struct sn_frame *f)
{
    return f->same_host ? f->sport - SN_SLOT_PORT : SN_NO_SLOT;
}

/* Is the ICRC of a frame that was received right? */
bool sn_frame_icrc_ok(const struct sn_frame *f);

#endif
