/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h: what a frame's addresses say, for the engine and for whoever checks frames before it. Any thread.
 */
#ifndef SN_FRAME_H
#define SN_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic.h"
#include "src/roce/icrc.h"

/* What an ICRC between two addresses covers, but for the source port and the ID. */
struct roce_path sn_path_between(const uint8_t src[16], const uint8_t dst[16]);

/* Is the ICRC of a frame that was received right? */
bool sn_frame_icrc_ok(const struct sn_frame *f);

#endif
