/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_peer.h: a NIC whose only peer is the fuzzer, for targets that are one end of a connection. It has
 * memory, the packets that the peer sends, and those that the peer gets. */
#ifndef TESTS_FUZZ_FUZZ_PEER_H
#define TESTS_FUZZ_FUZZ_PEER_H

#include "src/roce/hdr.h"
#include "tests/fuzz/fuzz_engine.h"

enum { SQ = 32, CQ = 256, PEER = 1, PEER_QPN = 0x550001, MTU = 256, STEPS = 96 };

static struct rig rig;
static uint8_t cq_mem[CQ * 64] __attribute__((aligned(128)));
static uint8_t sq_mem[SQ * 64] __attribute__((aligned(64)));

static uint8_t *mem(uint32_t at)
{
    return rig.node[0].mem + at;
}

/* Starts again. The first `len` bytes of the NIC's memory, and of a copy to compare with, become `fill`. */
static void peer_begin(bool hostile, uint8_t *shadow, uint8_t fill, uint32_t len)
{
    struct rig_params p = {.nodes = 1, .hostile = hostile, .net = {.has_ip_id = true}};

    require(rig_start(&rig, &p, 1));
    memset(mem(0), fill, len);
    memset(shadow, fill, len);
}

static void peer_end(void)
{
    rig_stop(&rig);
    require(!rig.failed);
}

/* Sends a packet with len bytes of `fill` to queue pair qpn. False: no packet has such a header. */
static bool peer_sends(uint32_t qpn, struct roce_hdr *h, uint32_t len, uint8_t fill)
{
    uint8_t packet[SN_FRAME_MAX];
    uint32_t n;

    h->dqpn = qpn;
    h->pkey = ROCE_DEFAULT_PKEY;
    h->migreq = true;
    h->pad = roce_pad(len);
    n = roce_pack(packet, h);
    if (!n) return false;
    memset(packet + n, fill, len + h->pad);
    net_inject(&rig.net, 0, rig.net.gid[PEER], packet, n + len + h->pad + ROCE_ICRC_LEN, true);
    return true;
}

/* Takes what the NIC has sent. All of it must be packets; `look` (may be NULL) gets each with its payload. */
static void peer_hears(void (*look)(const struct roce_hdr *h, const uint8_t *payload, uint32_t len))
{
    struct sn_frame frames[16];
    struct roce_hdr h;
    uint32_t len;
    bool more = true;

    while (more) {
        int n = net_wire_ops.recv(&rig.net.port[PEER], frames, 16, &more);

        for (int i = 0; i < n; i++) {
            int at = roce_parse(frames[i].data, frames[i].len, &h, &len);

            require(at > 0);
            if (look) look(&h, frames[i].data + at, len);
        }
        more = more && n;
    }
}

#endif
