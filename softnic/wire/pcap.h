/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pcap.h: a capture of what goes over the wire, as Wireshark and tshark read it. It is pcapng (RFC draft
 * ietf-opsawg-pcapng) with nanoseconds. It has packets from their IP headers on, each marked as going out or
 * coming in.
 *
 * A packet is written as it counts for the ICRC: to UDP port 4791, with "don't fragment" set and the IPv4 ID
 * with which its ICRC is right. Fields that the sockets do not tell (TTL, flow label) are filled in; the ICRC
 * does not cover them.
 *
 * The sender and receiver of frames only copies them into a buffer; a thread of its own ("gw-pcap") writes
 * the file as they come. When that cannot follow, packets are missing from the capture, and counted.
 */
#ifndef SOFTNIC_WIRE_PCAP_H
#define SOFTNIC_WIRE_PCAP_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"

struct sn_pcap;

struct sn_pcap_stats {
    uint64_t frames;  /* taken */
    uint64_t bytes;   /* of the file */
    uint64_t missing; /* for want of room in the buffer */
    uint64_t stopped; /* 1: pcap_max was reached, or the file could not be written */
};

/*
 * Begins a capture at the NIC of address gid. In name, %p becomes the process's number. max: bytes that the
 * file may have, 0: any number. Returns 0, or a negative errno with one line in why: -EBUSY another process
 * captures to that file, others from the system.
 */
int sn_pcap_open(const char *name, uint64_t max, const uint8_t gid[16], struct sn_pcap **pcap, char why[256]);

/* Takes frames that were sent (out) or came in, at a time as sn_pcap_now gives it. One thread at a time. */
void sn_pcap_frames(struct sn_pcap *pcap, const struct sn_frame *frames, int n, bool out, uint64_t time);
uint64_t sn_pcap_now(void);

/* Waits until all that was taken is in the file, or wait_ms are over. Any thread. */
void sn_pcap_flush(struct sn_pcap *pcap, int wait_ms);

/* Writes what is left and ends. NULL is fine. */
void sn_pcap_close(struct sn_pcap *pcap);

/* Any thread. */
void sn_pcap_stats(const struct sn_pcap *pcap, struct sn_pcap_stats *stats);
const char *sn_pcap_name(const struct sn_pcap *pcap); /* of the file */
/* Descriptors to be closed in a forked child, which has no such thread. */
void sn_pcap_fds(const struct sn_pcap *pcap, int fds[2]);

/* pcap_packet.c: the IP and UDP headers before a frame. Returns their length. */
enum { SN_PCAP_HEADERS = 48 };
uint32_t sn_pcap_headers(const struct sn_frame *frame, uint8_t p[SN_PCAP_HEADERS]);

#endif
