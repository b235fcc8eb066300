/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/balance/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/balance/checksum.h"

const struct side_mix side_mixes[2] = {{"campus", 951, 3}, {"CAIDA", 990, 7}};

uint64_t side_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t scramble(uint64_t v)
{
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
    return v ^ v >> 32;
}

uint32_t side_length(const struct side_mix *mix, uint64_t *random)
{
    /* 40 in 100 have 66 bytes, and the others so many that the mean is the mix's; a link allows no more. */
    uint32_t length = side_random(random) % 100 < 40 ? 66 : mix->mean + (mix->mean - 66) * 2 / 3;
    return length > SIDE_LINK ? SIDE_LINK : length;
}

void side_packet(uint8_t *p, uint64_t flow, uint8_t flags, uint32_t length)
{
    uint8_t *ip = p + BAL_ETH_LEN, *tcp = ip + 20;
    uint64_t h = scramble(flow);
    memset(p, 0, BAL_ETH_LEN + 40);
    memcpy(p, (uint8_t[14]){2, 1, 1, 1, 1, 1, 2, 9, 9, 9, 9, 9, 8, 0}, 14);
    memcpy(ip, (uint8_t[]){0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6}, 10);
    bal_put16(ip + 2, length - BAL_ETH_LEN);
    memcpy(ip + 12, (uint8_t[]){172, (uint8_t)h, (uint8_t)(h >> 8), (uint8_t)(h >> 16), 10, 1, 0, 1}, 8);
    bal_checksum_write(ip + 10, bal_sum(ip, 20));
    bal_put16(tcp, (uint32_t)(h >> 32));
    bal_put16(tcp + 2, 80);
    tcp[12] = 0x50;
    tcp[13] = flags;
}

void *side_memory(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    return memset(p, 0, bytes);
}

void side_memory_free(void *p, uint64_t bytes)
{
    munmap(p, bytes);
}

static void configure(struct bal_config *config, enum bal_forward forward)
{
    config->port[0] =
        (struct bal_port){.used = true, .mtu = 9000, .addr = {{4, {10, 0, 0, 1}}}, .prefix = {8}};
    config->service[1] = (struct bal_service){.used = true,
                                              .proto = BAL_TCP,
                                              .scheduler = BAL_WLC,
                                              .forward = (uint8_t)forward,
                                              .vip = {4, {10, 1, 0, 1}},
                                              .port = 80};
    for (uint32_t w = 0; w < SIDE_WORKERS; w++)
        config->worker[w] = (struct bal_worker){.used = true,
                                                .state = BAL_UP,
                                                .mac_known = true,
                                                .mac = {2, [5] = (uint8_t)w},
                                                .service = 1,
                                                .weight = 100,
                                                .addr = {4, {10, 2, 0, (uint8_t)(w + 1)}}};
}

int side_open(struct bal **bal, uint32_t cores, uint64_t flows, enum bal_forward forward)
{
    struct bal_config *config = calloc(1, sizeof(*config));
    char error[256] = "no memory for the tables";
    const struct bal_attr attr = {
        .cores = cores, .flows = flows * 2 / cores, .wide_flows = 1000, .huge_pages = true};
    if (!config) return -1;
    configure(config, forward);
    int failed = bal_create(&attr, bal);
    if (!failed) failed = bal_publish(*bal, config, error, sizeof(error));
    if (failed) fprintf(stderr, "the balancer: %s\n", error);
    free(config);
    return failed ? -1 : 0;
}

void side_establish(struct bal_core *core, uint64_t first, uint64_t end, uint64_t step, double *now_ns)
{
    static const uint8_t flags[2] = {BAL_SYN, BAL_ACK};
    uint8_t memory[SIDE_SLOT];
    for (uint64_t flow = first; flow < end; flow += step)
        for (int i = 0; i < 2; i++) {
            side_packet(memory + SIDE_ROOM, flow, flags[i], 66);
            struct bal_packet p = {.data = memory + SIDE_ROOM, .len = 66, .headroom = SIDE_ROOM};
            gw_balance_burst(core, &p, 1, (uint64_t)(*now_ns += 10));
        }
}
