/* SPDX-License-Identifier: Apache-2.0 */
/* How long texts may be. */
#ifndef GW_GENERATE_TEXT_LIMITS_H
#define GW_GENERATE_TEXT_LIMITS_H

/* The longest text that one call encodes, in bytes. */
#define GEN_MAX_TEXT (4u << 20)
/* The longest text that a chat template makes, and the longest template. */
#define GEN_MAX_PROMPT   GEN_MAX_TEXT
#define GEN_MAX_TEMPLATE (1u << 20)

#endif
