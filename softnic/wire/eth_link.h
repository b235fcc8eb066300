/* SPDX-License-Identifier: Apache-2.0 */
/* eth_link.h: a socket that sends and receives whole Ethernet frames. */
#ifndef SOFTNIC_WIRE_ETH_LINK_H
#define SOFTNIC_WIRE_ETH_LINK_H

#include "softnic/wire/eth.h"

struct sn_eth_link {
    int fd;       /* each message is a frame, from its destination address on */
    int claim_fd; /* holds the address at the interface; -1: the socket's own port does */
    uint8_t mac[6];
};

/* See sn_eth_open. */
int sn_eth_link_open(const struct sn_addr *addr, const struct sn_eth_config *config, struct sn_eth_link *link,
                     char why[256]);
void sn_eth_link_close(struct sn_eth_link *link);

#endif
