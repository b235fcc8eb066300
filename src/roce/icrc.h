/* SPDX-License-Identifier: Apache-2.0 */
/*
 * icrc.h: the invariant CRC at the end of every RoCEv2 packet.
 *
 * It is the CRC-32 of zlib and Ethernet. It begins with 8 bytes ff. Then comes the IP header, with the fields
 * that routers change set to ones. In IPv4 these are ToS, TTL and checksum, in IPv6 traffic class, flow label
 * and hop limit. Then come the UDP header with its checksum set to ones, the BTH with its byte 4 set to ones,
 * and everything else up to the ICRC. It is appended low byte first. (InfiniBand annex A17.) The IPv4 ID and
 * the DF flag are covered, which matters to senders that use UDP sockets. Pure functions, any thread. IP
 * addresses and ports are given as on the wire (_be) or in host order (no suffix).
 */
#ifndef GW_SRC_ROCE_ICRC_H
#define GW_SRC_ROCE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The addresses that an ICRC covers. */
struct roce_path {
    bool ipv6;
    uint8_t src[16], dst[16]; /* IPv4: the first four bytes */
    uint16_t sport, dport;    /* host order; dport is 4791 for every packet that is on the wire */
    uint16_t ip_id;           /* IPv4 only */
    uint16_t frag_off;        /* IPv4 only: flags and fragment offset, ROCE_IP_DF as a rule */
};

enum { ROCE_IP_DF = 0x4000 };

/* ---- CRC-32, zlib's: roce_crc32(0, …) starts, feeding the result back continues ----------------------- */

uint32_t roce_crc32(uint32_t crc, const void *data, size_t len);
/* The same by tables alone; roce_crc32 uses the CPU's carry-less multiply where it can. For tests and
 * fallback. */
uint32_t roce_crc32_portable(uint32_t crc, const void *data, size_t len);
/* "isa-l" or "tables": what roce_crc32 uses. */
const char *roce_crc32_impl(void);
/* The raw register (no inversions) after n more zero bytes; and, the other way, n zero bytes earlier. */
uint32_t roce_crc_advance(uint32_t reg, size_t n);
uint32_t roce_crc_rewind(uint32_t reg, size_t n);

/* ---- ICRC --------------------------------------------------------------------------------------------- */

/*
 * Incremental form, for payload that is not contiguous. Begin with the path, the length of the UDP payload
 * including pad and ICRC, and the headers (at least the 12 bytes of the BTH). Add the rest piece by piece.
 * Then end it.
 */
uint32_t roce_icrc_begin(const struct roce_path *path, uint32_t udp_payload_len, const uint8_t *hdr,
                         size_t hdr_len);
static inline uint32_t roce_icrc_add(uint32_t state, const void *data, size_t len)
{
    return roce_crc32(state, data, len);
}
/* Writes the four bytes to p. */
static inline void roce_icrc_end(uint32_t state, uint8_t p[4])
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(state >> 8 * i);
}

/* ICRC of the UDP payload at p, whose len bytes include the four of the ICRC itself (which are not read); len
 * >= 16. */
uint32_t roce_icrc(const struct roce_path *path, const uint8_t *p, size_t len);
/*
 * The same where many packets of one length go one path: what stands before the BTH, reckoned once, and the
 * ICRC from there on. Byte 4 of the BTH is other than it was while this runs, and as it was afterwards.
 */
uint32_t roce_icrc_start(const struct roce_path *path, uint32_t udp_payload_len);
uint32_t roce_icrc_from(uint32_t start, uint8_t *p, size_t len);
/* The ICRC that a packet carries: its last four bytes. len >= 4. */
static inline uint32_t roce_icrc_carried(const uint8_t *p, size_t len)
{
    p += len - 4;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* Does the UDP payload carry the right ICRC for this path? false for len < 16. */
bool roce_icrc_ok(const struct roce_path *path, const uint8_t *p, size_t len);

/*
 * For receivers on a UDP socket, which cannot see the IPv4 ID: is there an ID with which the packet's ICRC is
 * right (path->ip_id is ignored, frag_off is taken as given)? Then *ip_id is set to it. It is unique when it
 * exists. A damaged packet passes with probability 2^-16, against 2^-32 for a check with the ID known; so try
 * the known ID first. IPv4 only (false for IPv6); len >= 16.
 */
bool roce_icrc_match_ipv4_any_id(const struct roce_path *path, const uint8_t *p, size_t len, uint16_t *ip_id);

/*
 * The ICRC after n covered bytes changed from `from` to `to`, with `tail` covered bytes after them (neither
 * mask nor the ICRC itself counted among the changed). For rewriting packets without reading the payload.
 */
uint32_t roce_icrc_patch(uint32_t icrc, const uint8_t *from, const uint8_t *to, size_t n, size_t tail);

/*
 * The path of a whole packet that starts with its IP header, IPv4 without options or IPv6 without extension
 * headers, and is UDP. Returns the offset of the UDP payload and sets *payload_len, or -1 for anything else.
 */
int roce_path_of_packet(const uint8_t *ip, size_t len, struct roce_path *path, size_t *payload_len);

#endif
