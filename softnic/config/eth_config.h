/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eth_config.h: what GPUWIRE_NIC says about a NIC that is a station of its own on an Ethernet link (eth.h).
 *
 *     `wire=eth`                   Whole Ethernet frames. `addr=` is then the NIC's alone, and may name the
 *                                  subnet: addr=192.0.2.7/24.
 *     `if=NAME`                    The interface, by packet sockets. Or:
 *     `bind=IP:PORT,peer=IP:PORT`  UDP datagrams that hold a frame each.
 *     `mac=xx:xx:xx:xx:xx:xx`      The default is the interface's. With datagrams it is made from the
 *                                  address.
 *     `gw=IP`                      The gateway to other subnets.
 */
#ifndef SOFTNIC_CONFIG_ETH_CONFIG_H
#define SOFTNIC_CONFIG_ETH_CONFIG_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/config/addr.h"

struct sn_eth_config {
    bool on;
    char interface[IFNAMSIZ];      /* "": datagrams */
    struct sockaddr_in bind, peer; /* of the datagrams; family 0: not given */
    bool has_mac;
    uint8_t mac[6];
    bool has_prefix;
    uint8_t prefix; /* bits of the address that name the subnet; without one all addresses are on the link */
    bool has_gateway;
    struct sn_addr gateway;
};

/* One of the keys above but "wire" and the prefix. Returns whether the value is one. */
bool sn_eth_config_set(struct sn_eth_config *eth, const char *key, const char *value);
/* "24", after an address of either family. */
bool sn_eth_config_prefix(struct sn_eth_config *eth, const char *text, bool ipv4);

/* Whether all of it fits together; else one line of at most size bytes in why. addr: NULL if none was given.
 */
bool sn_eth_config_check(const struct sn_eth_config *eth, const struct sn_addr *addr, char *why, size_t size);

/* The largest path MTU that the link carries (sn_addr_path_mtu); datagrams: that of a link with an MTU of
 * 1500. */
uint32_t sn_eth_path_mtu(const struct sn_eth_config *eth);

#endif
