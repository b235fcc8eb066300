/* SPDX-License-Identifier: Apache-2.0 */
/* One hash for the tables of a tokenizer. What they hold is from the model's file, so it need not withstand
 * strangers. */
#ifndef GW_GENERATE_TEXT_HASH_H
#define GW_GENERATE_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t gen_hash_mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static inline uint64_t gen_hash(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t h = bytes * 0x9E3779B97F4A7C15u, word;
    for (; bytes >= 8; at += 8, bytes -= 8) {
        memcpy(&word, at, 8);
        h = gen_hash_mix(h ^ word) + 0x632BE59BD9B4E019u;
    }
    word = 0;
    memcpy(&word, at, bytes);
    return gen_hash_mix(gen_hash_mix(h ^ word));
}

#endif
