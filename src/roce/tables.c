/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the tables of the CRC when the program is loaded. */
#include "src/roce/tables.h"

uint32_t roce_crc_slices[8][256];
struct roce_crc_powers roce_crc_forward, roce_crc_backward;

static uint32_t back[256]; /* back[t]: what top byte t of a register becomes eight bits before */

/* Eight bits forward: times x^8. */
static uint32_t byte_forward(uint32_t reg)
{
    return reg >> 8 ^ roce_crc_slices[0][reg & 0xff];
}

static uint32_t byte_backward(uint32_t reg)
{
    return reg << 8 ^ back[reg >> 24];
}

static uint32_t bits_forward(uint32_t reg)
{
    for (int i = 0; i < 8; i++) reg = reg >> 1 ^ (ROCE_CRC_POLY & -(reg & 1));
    return reg;
}

/* The polynomial's lowest term (bit 31 set after a step) tells whether it was subtracted. */
static uint32_t bits_backward(uint32_t reg)
{
    for (int i = 0; i < 8; i++) {
        uint32_t was_odd = reg >> 31;

        reg = (reg ^ (ROCE_CRC_POLY & -was_odd)) << 1 | was_odd;
    }
    return reg;
}

static void powers(struct roce_crc_powers *p, uint32_t (*byte)(uint32_t))
{
    uint32_t x = 0x80000000u; /* x^0 */

    for (uint32_t n = 0; n < 0x10000; n++, x = byte(x)) {
        if (n < 256) p->low[n] = x;
        if ((n & 0xff) == 0) p->high[n >> 8] = x;
    }
    p->page = x;
}

/* Priority 101, the earliest there is: other constructors may send packets already. Every program that loads
 * the NIC waits for it, so the powers, 65,536 of each kind, are stepped through by bytes. */
__attribute__((constructor(101))) static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        roce_crc_slices[0][b] = bits_forward(b);
        back[b] = bits_backward(b << 24);
    }
    for (uint32_t k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++) roce_crc_slices[k][b] = byte_forward(roce_crc_slices[k - 1][b]);
    powers(&roce_crc_forward, byte_forward);
    powers(&roce_crc_backward, byte_backward);
}
