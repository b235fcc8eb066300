/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eth_frame.h: the headers around a RoCEv2 packet, and the messages by which stations find each other: ARP
 * (RFC 826) and neighbour discovery (RFC 4861). Pure functions, any thread; parsers take any bytes and never
 * read past len.
 */
#ifndef SOFTNIC_WIRE_ETH_FRAME_H
#define SOFTNIC_WIRE_ETH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/nic/nic.h"

enum {
    SN_ETH_HDR = 14,
    SN_IPV4_HDR = 20,
    SN_IPV6_HDR = 40,
    SN_UDP_HDR = 8,
    SN_ETH_MAX_HDR = SN_ETH_HDR + SN_IPV6_HDR + SN_UDP_HDR,
    SN_ETH_FRAME = SN_FRAME_MAX + SN_ETH_MAX_HDR,     /* the longest frame taken */
    SN_NEIGH_MESSAGE = SN_ETH_HDR + SN_IPV6_HDR + 32, /* room for an ARP or neighbour discovery message */
};

/* A station: the sender, or the target. */
struct sn_station {
    uint8_t gid[16], mac[6];
};

/*
 * Writes Ethernet, IP and UDP headers for frame, from `self`, to MAC address `to`, from UDP port sport. IPv4:
 * ID 0, DF, as the ICRC counts; UDP checksum 0, which RoCEv2 asks for, also over IPv6. Both addresses are of
 * one family. Returns the headers' length.
 */
uint32_t sn_eth_pack(uint8_t hdr[SN_ETH_MAX_HDR], const struct sn_station *self, const uint8_t to[6],
                     uint16_t sport, const struct sn_frame *frame);

enum sn_eth_kind {
    SN_ETH_OTHER,    /* nothing for this station */
    SN_ETH_ROCE,     /* frame is filled in */
    SN_ETH_WHO_HAS,  /* peer asks for our MAC address */
    SN_ETH_IS_AT,    /* peer says what its MAC address is, to us */
    SN_ETH_CONFLICT, /* peer claims our address */
};

/* A message that arrived, seen from station `self`. Its sender is `peer`; for RoCE frames its address is
 * frame->src_gid. */
enum sn_eth_kind sn_eth_parse(uint8_t *p, size_t len, const struct sn_station *self, struct sn_frame *frame,
                              struct sn_station *peer);

/*
 * Messages, written to p. Each returns its length. ask: who has `gid`? answer: tells `peer`, which asked, our
 * MAC address. announce: tells everybody.
 */
uint32_t sn_neigh_ask(uint8_t p[SN_NEIGH_MESSAGE], const struct sn_station *self, const uint8_t gid[16]);
uint32_t sn_neigh_answer(uint8_t p[SN_NEIGH_MESSAGE], const struct sn_station *self,
                         const struct sn_station *peer);
uint32_t sn_neigh_announce(uint8_t p[SN_NEIGH_MESSAGE], const struct sn_station *self);

/* The multicast MAC address at which an IPv6 station is asked for. */
void sn_solicited_mac(const uint8_t gid[16], uint8_t mac[6]);

#endif
