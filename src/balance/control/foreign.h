/* SPDX-License-Identifier: Apache-2.0 */
/* Words of keepalived's that the balancer has no keyword for. */
#ifndef GW_BALANCE_CONTROL_FOREIGN_H
#define GW_BALANCE_CONTROL_FOREIGN_H

/* How a word in a block is treated (NULL: outside of all). NULL: keepalived has no such word. "": it has no
 * meaning for balancing, and is ignored with its block. Otherwise why it is refused, and what to do. */
const char *gw_bal_foreign(const char *block, const char *word);

#endif
