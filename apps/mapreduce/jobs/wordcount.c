/* SPDX-License-Identifier: Apache-2.0 */
/* Word count: how often does each word stand in the input? As tr, sort and uniq -c would count them. */
#include "apps/mapreduce/mapreduce.h"

GW_DEV void wordcount_map(struct mr_map *m, const uint8_t *word, uint32_t bytes)
{
    mr_emit_u64(m, word, bytes, 1);
}

GW_DEV void wordcount_reduce(struct mr_reduce *r, const uint8_t *key, uint32_t bytes)
{
    const uint64_t *v;
    uint64_t sum = 0;

    while ((v = (const uint64_t *)mr_next(r, NULL))) sum += *v;
    mr_put(r, key, bytes);
    mr_put_char(r, '\t');
    mr_put_u64(r, sum);
    mr_put_char(r, '\n');
}

MR_JOB(wordcount, wordcount_map, MR_NO_COMBINE, wordcount_reduce, .what = "counts the words of texts",
       .input = MR_WORDS, .combine = MR_SUM_U64, .flags = MR_SORT, .key = MR_MAX_KEY, .value = 8);
