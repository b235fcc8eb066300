/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts TeraSort's records: 100 bytes, of which the first 10 are the key. Equal keys are in the order of
 * the rest, so that there is one result. The parts, one after another, are the sorted file. */
#include "../mapreduce.h"

enum { SORT_RECORD = 100, SORT_KEY = 10 };

GW_DEV void sort_map(struct mr_map *m, const uint8_t *record, uint32_t bytes)
{
    mr_emit(m, record, SORT_KEY, record + SORT_KEY, bytes - SORT_KEY);
}

GW_DEV void sort_reduce(struct mr_reduce *r, const uint8_t *key, uint32_t bytes)
{
    const void *rest;
    uint32_t n;

    while ((rest = mr_next(r, &n))) {
        mr_put(r, key, bytes);
        mr_put(r, rest, n);
    }
}

MR_JOB(sort, sort_map, MR_NO_COMBINE, sort_reduce, .what = "sorts records of 100 bytes by their first 10",
       .input = MR_RECORDS, .record = SORT_RECORD, .flags = MR_SORT | MR_ORDER | MR_SORT_VALUES,
       .key = SORT_KEY, .value = SORT_RECORD - SORT_KEY);
