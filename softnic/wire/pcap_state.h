/* SPDX-License-Identifier: Apache-2.0 */
/* pcap_state.h: what the parts of a capture share: pcap.c, its file (pcap_file.c) and the file's format
 * (pcap_block.c). */
#ifndef SOFTNIC_WIRE_PCAP_STATE_H
#define SOFTNIC_WIRE_PCAP_STATE_H

#include <pthread.h>

#include "softnic/wire/pcap.h"

enum { SN_PCAP_RING = 32 << 20 };

struct sn_pcap {
    char name[1100];
    int fd, wake_fd;
    pthread_t thread;
    uint64_t max;
    uint8_t *ring;
    uint64_t taken; /* bytes put into the ring; the packets' thread writes it, the file's reads it */
    uint64_t done;  /* bytes of them that were written, the other way round */
    int sleeping;   /* the file's thread waits, or is about to */
    int stop, full;
    struct sn_pcap_stats stats;
};

/* One writer, any readers. */
static inline void sn_pcap_set(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* pcap_file.c: 0, or a negative errno with a line in why. */
int sn_pcap_open_file(struct sn_pcap *c, char why[256]);
int sn_pcap_start_thread(struct sn_pcap *c);
void sn_pcap_drain(
    struct sn_pcap *c); /* writes what the ring has; the file's thread, or before there is one */

/* pcap_block.c. The beginning of a file; returns its length. */
enum { SN_PCAP_BEGINNING = 1024 };
size_t sn_pcap_beginning(uint8_t out[SN_PCAP_BEGINNING], const uint8_t gid[16]);
/* A packet of len bytes is a block: its head, the packet padded to four bytes, its tail. */
enum { SN_PCAP_HEAD = 28, SN_PCAP_TAIL = 16 };
static inline uint32_t sn_pcap_padded(uint32_t len)
{
    return (len + 3) & ~3u;
}
uint32_t sn_pcap_block(uint32_t len); /* its length */
void sn_pcap_head(uint8_t out[SN_PCAP_HEAD], uint32_t len, uint64_t time);
void sn_pcap_tail(uint8_t p[SN_PCAP_TAIL], uint32_t len, bool out);

#endif
