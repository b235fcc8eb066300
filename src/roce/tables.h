/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h: what CRC-32 arithmetic looks up. Computed when the program is loaded, before any other
 * constructor. */
#ifndef GW_SRC_ROCE_TABLES_H
#define GW_SRC_ROCE_TABLES_H

#include <stdint.h>

#define ROCE_CRC_POLY 0xedb88320u /* 04c11db7, reflected */

/* roce_crc_slices[k][b]: the register that byte b leaves after k more zero bytes. */
extern uint32_t roce_crc_slices[8][256];

/* Factors for moving a register: low[n] by n bytes, high[n] by 256 n, page by 65536. */
struct roce_crc_powers {
    uint32_t low[256], high[256], page;
};
extern struct roce_crc_powers roce_crc_forward, roce_crc_backward;

#endif
