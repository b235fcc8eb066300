/* SPDX-License-Identifier: Apache-2.0 */
/* A lease's budget: a bucket that gains `rate` tokens a second and holds `most`. A request takes one for
 * each of its samples. The worker keeps the same one, and refuses what exceeds it. */
#ifndef GW_FLEET_CLIENT_BUCKET_H
#define GW_FLEET_CLIENT_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct fleet_bucket {
    double rate, most, tokens;
    int64_t at; /* when `tokens` was right */
};

/* A new budget. What was in the bucket stays, as far as the new one holds it; a new bucket is full. */
static inline void fleet_bucket_set(struct fleet_bucket *b, double rate, double most, int64_t now)
{
    double had = b->at ? b->tokens + b->rate * (double)(now - b->at) / 1e9 : most;
    *b = (struct fleet_bucket){.rate = rate, .most = most, .tokens = had < most ? had : most, .at = now};
}

/* A request of more samples than the bucket holds takes them when it is full. */
static inline bool fleet_bucket_take(struct fleet_bucket *b, double n, int64_t now)
{
    if (now > b->at) {
        double had = b->tokens + b->rate * (double)(now - b->at) / 1e9;
        b->tokens = had < b->most ? had : b->most;
        b->at = now;
    }
    if (b->tokens < n && b->tokens < b->most) return false;
    b->tokens -= n;
    return true;
}

/* When it will have that many, if none is taken before. */
static inline int64_t fleet_bucket_when(const struct fleet_bucket *b, double n)
{
    double lacks = (n < b->most ? n : b->most) - b->tokens;
    return lacks <= 0 ? b->at : b->at + (int64_t)(lacks / b->rate * 1e9) + 1000;
}

/* The worker has refused: its bucket is empty until then. */
static inline void fleet_bucket_empty(struct fleet_bucket *b, int64_t until)
{
    b->tokens = 0;
    b->at = until > b->at ? until : b->at;
}

#endif
