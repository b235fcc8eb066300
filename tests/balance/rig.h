/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h: packets made in memory, checksums reckoned in full, and a balancer with a few services. */
#ifndef GW_TESTS_BALANCE_RIG_H
#define GW_TESTS_BALANCE_RIG_H

#include "src/balance/burst.h"
#include "src/balance/core.h"
#include "src/balance/keep.h"
#include "src/balance/link.h"
#include "src/balance/parse.h"
#include "src/balance/services.h"
#include "src/balance/step.h"

enum { RIG_ROOM = 128, RIG_LEN = 4096 };

struct rig_packet {
    struct bal_packet p;
    uint8_t buffer[RIG_ROOM + RIG_LEN];
};

/* One end of a flow. */
struct rig_end {
    struct bal_addr addr;
    uint16_t port;
};

struct bal_addr rig_ip4(uint32_t addr);
/* fd00::WHICH */
struct bal_addr rig_ip6(uint32_t which);

/* A whole TCP segment, UDP datagram or RoCE packet, with right checksums and ICRC; `payload` bytes of a
 * pattern. */
void rig_tcp(struct rig_packet *out, struct rig_end from, struct rig_end to, uint8_t flags, uint32_t payload);
/* The same with these numbers. */
void rig_tcp_numbers(struct rig_packet *out, uint32_t seq, uint32_t ack);
void rig_udp(struct rig_packet *out, struct rig_end from, struct rig_end to, uint32_t payload);
/* `bytes` of UDP payload, from BTH to the last before the ICRC. Between every other pair of addresses UDP has
 * a checksum. */
void rig_roce(struct rig_packet *out, struct bal_addr from, struct bal_addr to, const void *bytes,
              uint32_t len);
/* An ICMP error (type 3 code 1, or ICMPv6 1, 0) from `router` to the packet's sender, about the packet. */
void rig_error(struct rig_packet *out, struct bal_addr router, const struct rig_packet *about);
/* The first `bytes` of the packet's IPv4 payload as a fragment, or the rest. */
void rig_fragment(struct rig_packet *out, const struct rig_packet *whole, uint32_t from, uint32_t bytes);
/* As if it had just arrived. */
void rig_arrive(struct rig_packet *p, const uint8_t *frame, uint32_t len);

/* Are the checksums, and the ICRC, of the packet that starts with this IP header what a full computation
 * gives? Also of a tunnel's headers and what is in them, and of the packet inside an ICMP error. */
bool rig_sound(const uint8_t *ip, uint32_t len);
/* Do both say the same of a frame? */
bool rig_same_meta(const struct bal_meta *a, const struct bal_meta *b);
/* The packet's addresses and ports, of the outermost header. */
void rig_ends(const struct rig_packet *p, struct rig_end *from, struct rig_end *to);

/* ---- a balancer ---- */

struct rig {
    struct bal *bal;
    struct bal_config config;
    struct bal_core *core;
    uint64_t now;
};

/* One port: 10.0.0.1/8 and fd00::1/64. `cores` cores, of which the first has begun. */
int rig_open(struct rig *r, const struct bal_attr *attr);
/* With service 1 of that protocol, IPv4 and by turns, over workers 1 to 3. */
int rig_open_three(struct rig *r, uint8_t proto);
void rig_close(struct rig *r);
/* Service i: VIP 10.1.0.i or fd00::100:i, port 80. `proto`, `scheduler`, `forward`. */
struct bal_service *rig_service(struct rig *r, uint32_t i, bool ipv6, uint8_t proto);
/* Worker w of service i: 10.2.0.w or fd00::200:w, whose MAC is 2:0:0:0:0:w; UP, weight 100. */
struct bal_worker *rig_worker(struct rig *r, uint32_t w, uint32_t service);
int rig_publish(struct rig *r);
/* A client's MAC is asked for; it may be told from now on. */
void rig_ask(struct rig *r, const struct bal_addr *client);
/* Sends one packet through the first core; returns its verdict. */
int rig_send(struct rig *r, struct rig_packet *p);
/* The worker that a forwarded packet went to, by its MAC. */
uint32_t rig_went_to(const struct rig_packet *p);

#endif
