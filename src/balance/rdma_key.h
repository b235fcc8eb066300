/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_key.h: the key of a RoCE packet's flow. */
#ifndef GW_SRC_BALANCE_RDMA_KEY_H
#define GW_SRC_BALANCE_RDMA_KEY_H

#include "src/balance/step.h"
#include "src/roce/hdr.h"

/* Fills the key that the packet is looked up by. Its service, side and client are known. */
void bal_roce_key(struct bal_work *w);
struct bal_wide bal_roce_key_of(const struct bal_work *w, enum bal_wide_kind kind, uint32_t x);
/* The MAD of a packet to queue pair 1, or NULL. */
const uint8_t *bal_roce_mad(const struct bal_work *w);
enum { BAL_MAD_AT = ROCE_BTH_LEN + ROCE_DETH_LEN /* in UDP's payload */ };

#endif
