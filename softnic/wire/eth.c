/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives RoCEv2 in Ethernet frames, and finds the stations that they go to. */
#include "softnic/wire/eth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "softnic/base/clock.h"
#include "softnic/wire/eth_frame.h"
#include "softnic/wire/eth_link.h"
#include "softnic/wire/eth_neigh.h"
#include "softnic/wire/udp_state.h"

enum {
    BATCH = 32,
    HELD = 16, /* frames kept for addresses that are being asked for */
    /* Of a receive buffer: not a power of two, so that the buffers' beginnings do not compete for the same
     * cache lines.
     */
    ROOM = 4096 + 320,
};
_Static_assert((int)ROOM >= (int)SN_ETH_FRAME, "a receive buffer holds the longest frame");

struct held {
    uint8_t gid[16]; /* the station that is being asked for */
    struct sn_frame frame;
    uint8_t data[SN_FRAME_MAX];
};

struct sn_eth {
    struct sn_eth_link link;
    struct sn_station self;
    struct sn_eth_config config;
    uint8_t slot;
    struct sn_udp_stats stats;
    struct sn_neigh neigh;
    unsigned next_held;
    struct held held[HELD]; /* frame.len 0: free */
    struct mmsghdr out[BATCH], in[BATCH];
    struct iovec out_iov[BATCH][2], in_iov[BATCH];
    uint8_t headers[BATCH][SN_ETH_MAX_HDR + 2], room[BATCH][ROOM];
};

/* ---- neighbours ---------------------------------------------------------------------------------------- */

/* The station that takes frames for gid: itself, or the gateway. */
static const uint8_t *next_hop(const struct sn_eth *eth, const uint8_t *gid)
{
    unsigned bits = eth->config.prefix + (sn_gid_is_ipv4(gid) ? 96u : 0u);

    if (!eth->config.has_gateway || !eth->config.has_prefix) return gid;
    for (unsigned i = 0; i < bits; i += 8) {
        uint8_t mask = bits - i >= 8 ? 0xff : (uint8_t)(0xff << (8 - (bits - i)));

        if ((gid[i / 8] ^ eth->self.gid[i / 8]) & mask) return eth->config.gateway.gid;
    }
    return gid;
}

/* One that gets lost is sent again at the next send there. A refusal is about an earlier datagram,
 * and is told once. */
static void send_message(struct sn_eth *eth, const uint8_t *message, uint32_t len)
{
    for (int tries = 0; tries < 2; tries++) {
        if (send(eth->link.fd, message, len, MSG_DONTWAIT) >= 0) return;
        if (errno != ECONNREFUSED) break;
        sn_udp_count(&eth->stats.refused, 1);
    }
    sn_udp_count(&eth->stats.tx_errors, 1);
}

static const uint8_t *eth_resolve(struct sn_eth *eth, const uint8_t *gid, uint64_t now)
{
    uint8_t message[SN_NEIGH_MESSAGE];
    bool ask;
    const uint8_t *mac = sn_neigh_find(&eth->neigh, gid, now, &ask);

    if (ask) send_message(eth, message, sn_neigh_ask(message, &eth->self, gid));
    return mac;
}

static void eth_hold(struct sn_eth *eth, const uint8_t *gid, const struct sn_frame *frame)
{
    struct held *h = &eth->held[eth->next_held++ % HELD];

    if (h->frame.len || frame->len > SN_FRAME_MAX) sn_udp_count(&eth->stats.tx_errors, 1);
    h->frame.len = 0;
    if (frame->len > SN_FRAME_MAX) return;
    h->frame = *frame;
    h->frame.data = h->data;
    memcpy(h->gid, gid, 16);
    memcpy(h->data, frame->data, frame->len);
}

static void eth_learn(struct sn_eth *eth, const struct sn_station *peer, bool create)
{
    struct sn_frame frames[HELD];
    int n = 0;

    if (!sn_neigh_learn(&eth->neigh, peer->gid, peer->mac, sn_now_ns(), create)) return;
    for (unsigned i = 0; i < HELD; i++) {
        struct held *h = &eth->held[(eth->next_held + i) % HELD]; /* the oldest first */

        if (!h->frame.len || memcmp(h->gid, peer->gid, 16)) continue;
        frames[n++] = h->frame;
        h->frame.len = 0;
    }
    sn_eth_send(eth, frames, n);
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static void add_out(struct sn_eth *eth, int i, const uint8_t *mac, const struct sn_frame *frame)
{
    uint32_t len = sn_eth_pack(eth->headers[i], &eth->self, mac, sn_eth_port(eth), frame);

    eth->out_iov[i][0] = (struct iovec){eth->headers[i], len};
    eth->out_iov[i][1] = (struct iovec){frame->data, frame->len};
}

/* Sends the first n messages. Returns how many are dealt with; fewer when the system's buffer is full. */
static int send_out(struct sn_eth *eth, int n)
{
    int done = 0, tries = 0;

    while (done < n) {
        int sent = sendmmsg(eth->link.fd, eth->out + done, (unsigned)(n - done), MSG_DONTWAIT);

        if (sent > 0) {
            for (int i = done; i < done + sent; i++)
                sn_udp_count(&eth->stats.tx_bytes, eth->out_iov[i][1].iov_len);
            sn_udp_count(&eth->stats.tx_frames, (uint64_t)sent);
            done += sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
            sn_udp_count(&eth->stats.tx_waits, 1);
            break;
        } else if (errno == ECONNREFUSED && tries++ < 2) {
            sn_udp_count(&eth->stats.refused, 1); /* about an earlier datagram: the port is not open yet */
        } else if (errno != EINTR) {
            sn_udp_count(&eth->stats.tx_errors, 1);
            done++;
        }
    }
    return done;
}

int sn_eth_send(struct sn_eth *eth, const struct sn_frame *tx, int n)
{
    uint64_t now = sn_now_ns();
    int taken = 0;

    while (taken < n) {
        const uint8_t *mac = NULL, *hop = NULL;
        int batch = 0, done;

        /* Up to the first frame that cannot leave yet: the order of the others is kept, and none is held
         * twice. */
        for (; batch < BATCH && taken + batch < n; batch++) {
            const struct sn_frame *frame = &tx[taken + batch];

            hop = next_hop(eth, frame->dst_gid);
            mac = sn_gid_is_ipv4(frame->dst_gid) == sn_gid_is_ipv4(eth->self.gid) ? eth_resolve(eth, hop, now)
                                                                                  : NULL;
            if (!mac) break;
            add_out(eth, batch, mac, frame);
        }
        done = send_out(eth, batch);
        taken += done;
        if (done < batch) break;
        if (taken == n || mac) continue;
        if (sn_gid_is_ipv4(hop) == sn_gid_is_ipv4(eth->self.gid))
            eth_hold(eth, hop, &tx[taken]);
        else
            sn_udp_count(&eth->stats.tx_errors, 1);
        taken++;
    }
    return taken;
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

/* The messages that a station has to answer or may learn from. We shall soon send to one that asks for us. */
static void station_message(struct sn_eth *eth, enum sn_eth_kind kind, const struct sn_station *peer)
{
    static const uint8_t nobody[16];
    uint8_t message[SN_NEIGH_MESSAGE];
    bool v4 = sn_gid_is_ipv4(peer->gid);
    bool usable = !(peer->mac[0] & 1) && memcmp(peer->gid + (v4 ? 12 : 0), nobody, v4 ? 4 : 16);

    if (kind == SN_ETH_WHO_HAS) send_message(eth, message, sn_neigh_answer(message, &eth->self, peer));
    if (kind == SN_ETH_CONFLICT) send_message(eth, message, sn_neigh_announce(message, &eth->self));
    if (usable && (kind == SN_ETH_WHO_HAS || kind == SN_ETH_IS_AT))
        eth_learn(eth, peer, kind == SN_ETH_WHO_HAS);
}

int sn_eth_recv(struct sn_eth *eth, struct sn_frame *rx, int max, bool *more)
{
    int n = 0, got, want = max < BATCH ? max : BATCH;
    struct sn_station peer;
    uint64_t now;

    do {
        got = recvmmsg(eth->link.fd, eth->in, (unsigned)want, MSG_DONTWAIT, NULL);
    } while (got < 0 && (errno == EINTR || errno == ECONNREFUSED));
    *more = got == want;
    if (got <= 0) return 0;
    now = sn_now_ns();
    for (int i = 0; i < got; i++) {
        bool whole = !(eth->in[i].msg_hdr.msg_flags & MSG_TRUNC);
        enum sn_eth_kind kind =
            whole ? sn_eth_parse(eth->room[i], eth->in[i].msg_len, &eth->self, &rx[n], &peer) : SN_ETH_OTHER;

        if (kind == SN_ETH_ROCE) {
            sn_neigh_confirm(&eth->neigh, next_hop(eth, peer.gid), peer.mac, now);
            sn_udp_count(&eth->stats.rx_frames, 1);
            sn_udp_count(&eth->stats.rx_bytes, rx[n++].len);
        } else if (kind == SN_ETH_OTHER) {
            sn_udp_count(&eth->stats.rx_dropped, 1);
        } else {
            station_message(eth, kind, &peer);
        }
    }
    return n;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static void prepare_messages(struct sn_eth *eth)
{
    for (int i = 0; i < BATCH; i++) {
        eth->in_iov[i] = (struct iovec){eth->room[i], ROOM};
        eth->in[i].msg_hdr.msg_iov = &eth->in_iov[i];
        eth->in[i].msg_hdr.msg_iovlen = 1;
        eth->out[i].msg_hdr.msg_iov = eth->out_iov[i];
        eth->out[i].msg_hdr.msg_iovlen = 2;
    }
}

int sn_eth_open(const struct sn_addr *addr, const struct sn_eth_config *config, uint64_t seed,
                struct sn_eth **out, char why[256])
{
    struct sn_eth *eth = calloc(1, sizeof(*eth));
    uint8_t message[SN_NEIGH_MESSAGE];
    int err;

    if (!eth) {
        snprintf(why, 256, "out of memory");
        return -ENOMEM;
    }
    err = sn_eth_link_open(addr, config, &eth->link, why);
    if (err) {
        free(eth);
        return err;
    }
    eth->config = *config;
    eth->slot = (uint8_t)seed;
    eth->neigh.salt = seed * 0x9e3779b97f4a7c15u;
    memcpy(eth->self.gid, addr->gid, 16);
    memcpy(eth->self.mac, eth->link.mac, 6);
    prepare_messages(eth);
    /* Stations that know another MAC address for ours, from an earlier process, learn the new one. */
    send_message(eth, message, sn_neigh_announce(message, &eth->self));
    *out = eth;
    return 0;
}

void sn_eth_close(struct sn_eth *eth)
{
    if (!eth) return;
    sn_eth_link_close(&eth->link);
    free(eth);
}

unsigned sn_eth_slot(const struct sn_eth *eth)
{
    return eth->slot;
}

/* Told apart by flow, as routers and receivers with several queues want it. */
uint16_t sn_eth_port(const struct sn_eth *eth)
{
    return (uint16_t)(SN_SLOT_PORT + eth->slot);
}

int sn_eth_fd(const struct sn_eth *eth)
{
    return eth->link.fd;
}

int sn_eth_claim_fd(const struct sn_eth *eth)
{
    return eth->link.claim_fd;
}

uint32_t sn_eth_room(const struct sn_eth *eth)
{
    socklen_t len = sizeof(int);
    int room = 0;

    /* The kernel counts double, for its own overhead. */
    return getsockopt(eth->link.fd, SOL_SOCKET, SO_RCVBUF, &room, &len) ? 0 : (uint32_t)room / 2;
}

void sn_eth_stats(const struct sn_eth *eth, struct sn_udp_stats *stats)
{
    const uint64_t *from = (const uint64_t *)&eth->stats;
    uint64_t *to = (uint64_t *)stats;

    for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}
