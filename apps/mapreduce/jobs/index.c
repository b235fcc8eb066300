/* SPDX-License-Identifier: Apache-2.0 */
/* Inverted index: for each word, the files that it stands in. A line is the word, a tab, and the files'
 * names with tabs between them, in their order. */
#include <errno.h>
#include <string.h>

#include "../mapreduce.h"

/* In one file all values are the same, so the greatest of them is that one. The file's number goes with its
 * first byte first: so the order of the bytes is the order of the names. */
GW_DEV void index_map(struct mr_map *m, const uint8_t *word, uint32_t bytes)
{
    mr_emit_u64(m, word, bytes, gw_be64(m->file));
}

GW_DEV void index_reduce(struct mr_reduce *r, const uint8_t *key, uint32_t bytes)
{
    uint32_t before = UINT32_MAX, n;
    const uint64_t *v;

    mr_put(r, key, bytes);
    while ((v = (const uint64_t *)mr_next(r, NULL))) {
        uint32_t file = (uint32_t)gw_be64(*v);
        const char *name;

        if (file == before) continue;
        before = file;
        name = mr_file_name(r->a, file, &n);
        mr_put_char(r, '\t');
        mr_put(r, name, n);
    }
    mr_put_char(r, '\n');
}

#ifndef __CUDACC__
static int index_setup(struct mr_host *h, int argc, char **argv)
{
    (void)argv;
    if (argc) return mr_fail(h, -EINVAL, "index takes no arguments");
    for (uint32_t i = 0; i < h->files; i++)
        if (strpbrk(h->file[i].path, "\t\n"))
            return mr_fail(h, -EINVAL, "file %u: a name with a tab or newline would break the index's lines",
                           i);
    return 0;
}
#endif

MR_JOB(index, index_map, MR_NO_COMBINE, index_reduce,
       .what = "lists the files that each word of texts stands in", .setup = index_setup, .input = MR_WORDS,
       .combine = MR_MAX_U64, .flags = MR_SORT | MR_SORT_VALUES | MR_FILES_APART, .key = MR_MAX_KEY,
       .value = 8);
