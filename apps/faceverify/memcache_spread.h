/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcache_spread.h: which of several memcacheds has a key: what libmemcached would say, so that its clients
 * and ours find each other's values. For hosts and kernels.
 */
#ifndef MEMCACHE_SPREAD_H
#define MEMCACHE_SPREAD_H

#include <stdint.h>

#include <gpuwire/fn.h>

enum mc_spread {
    MC_MODULA,          /* libmemcached's default */
    MC_KETAMA,          /* MEMCACHED_BEHAVIOR_KETAMA: 100 points for each server, by Jenkins' hash */
    MC_KETAMA_WEIGHTED, /* MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED: 160 points, by MD5 */
};

/* A server's share of the circle of hashes ends at `value`. */
struct mc_point {
    uint32_t value, server;
};

/* All servers, as mc_server_of needs them; mc_ring_make (memcache_ring.h) fills it in. */
struct mc_ring {
    uint32_t spread, servers, points;
    const struct mc_point *point; /* ascending; without MC_MODULA */
};

/* Jenkins' hash "one at a time". libmemcached adds plain chars: on x86 they have a sign, as here. */
GW_FN uint32_t mc_jenkins(const char *key, uint32_t len)
{
    uint32_t h = 0, i;

    for (i = 0; i < len; i++) {
        h += (uint32_t)(int32_t)(int8_t)key[i];
        h += h << 10;
        h ^= h >> 6;
    }
    h += h << 3;
    h ^= h >> 11;
    return h + (h << 15);
}

/* ---- MD5 (RFC 1321) ------------------------------------------------------------------------------------ */

/* Constant i: the integer part of 2^32 |sin(i + 1)|. */
GW_FN uint32_t mc_md5_constant(uint32_t i)
{
    static const uint32_t k[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
        0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
        0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
    };

    return k[i];
}

/* One step's function of the three other words, which word of the block it takes, and how far it turns. */
GW_FN uint32_t mc_md5_mix(uint32_t i, const uint32_t s[4], uint32_t *word, uint32_t *turn)
{
    static const uint8_t turns[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
    uint32_t b = s[1], c = s[2], d = s[3];

    *turn = turns[i / 16 * 4 + i % 4];
    switch (i / 16) {
    case 0: *word = i; return (b & c) | (~b & d);
    case 1: *word = (5 * i + 1) % 16; return (d & b) | (~d & c);
    case 2: *word = (3 * i + 5) % 16; return b ^ c ^ d;
    default: *word = 7 * i % 16; return c ^ (b | ~d);
    }
}

/* Byte `at` of the padded message. */
GW_FN uint32_t mc_md5_byte(const char *key, uint32_t len, uint32_t at, uint32_t end)
{
    if (at < len) return (uint8_t)key[at];
    if (at == len) return 0x80;
    if (at >= end - 8 && at < end - 4) return (len * 8) >> (at - (end - 8)) * 8 & 0xff;
    return 0;
}

/* The digest's four words, the first byte lowest. len: below 2^28. */
GW_FN void mc_md5(const char *key, uint32_t len, uint32_t digest[4])
{
    uint32_t end = (len + 8) / 64 * 64 + 64, at, i, f, word, turn, s[4], x[16];

    digest[0] = 0x67452301, digest[1] = 0xefcdab89, digest[2] = 0x98badcfe, digest[3] = 0x10325476;
    for (at = 0; at < end; at += 64) {
        for (i = 0; i < 16; i++) x[i] = 0;
        for (i = 0; i < 64; i++) x[i / 4] |= mc_md5_byte(key, len, at + i, end) << i % 4 * 8;
        for (i = 0; i < 4; i++) s[i] = digest[i];
        GW_NO_UNROLL_
        for (i = 0; i < 64; i++) {
            f = mc_md5_mix(i, s, &word, &turn) + s[0] + mc_md5_constant(i) + x[word];
            s[0] = s[3], s[3] = s[2], s[2] = s[1];
            s[1] += f << turn | f >> (32 - turn);
        }
        for (i = 0; i < 4; i++) digest[i] += s[i];
    }
}

/* ---- the server ---------------------------------------------------------------------------------------- */

GW_FN uint32_t mc_hash(uint32_t spread, const char *key, uint32_t len)
{
    uint32_t digest[4];

    if (spread != MC_KETAMA_WEIGHTED) return mc_jenkins(key, len);
    mc_md5(key, len, digest);
    return digest[0];
}

/* The place of a key's server in the list. */
GW_FN uint32_t mc_server_of(const struct mc_ring *r, const char *key, uint32_t len)
{
    uint32_t hash, low = 0, high = r->points, middle;

    if (r->servers < 2) return 0;
    hash = mc_hash(r->spread, key, len);
    if (r->spread == MC_MODULA) return hash % r->servers;
    while (low < high) { /* the first point that is not before the hash */
        middle = low + (high - low) / 2;
        if (r->point[middle].value < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return r->point[low < r->points ? low : 0].server;
}

#endif
