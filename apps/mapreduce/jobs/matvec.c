/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix times a vector, both .npy files of float32. The matrix is the input, the vector the state. A
 * warp has a row. The sums have one order (dot.h), so the result has the same bytes on any number of
 * threads. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../dot.h"
#include "../formats.h"
#include "../mapreduce.h"

enum {
    MATVEC_WARPS = 32,    /* of a block, at most */
    MATVEC_THREADS = 256, /* on a GPU: a thread has 130 registers */
};

/* A row's 128 sums, by a warp. */
GW_DEV float matvec_row(const float *row, const float *x, uint64_t n, float *sum)
{
    uint32_t lane = gw_lane(), lanes = gw_warp_size(), mask = gw_warp_mask(), i;
    uint64_t c;

    for (i = lane; i < MR_SUMS; i += lanes) {
        float s = 0;

        for (c = i; c < n; c += MR_SUMS) s = fmaf(row[c], x[c], s);
        sum[i] = s;
    }
    gw_syncwarp(mask);
    for (i = MR_SUMS / 2; i; i /= 2) {
        uint32_t k;

        for (k = lane; k < i; k += lanes) sum[k] += sum[k + i];
        gw_syncwarp(mask);
    }
    return sum[0];
}

GW_DEV void matvec_map(struct mr_map *m, const uint8_t *record, uint32_t bytes)
{
    typedef float sums[MATVEC_WARPS][MR_SUMS];
    GW_SHARED(sums, sum);
    uint64_t key = gw_be64(m->number); /* so the order of the bytes is the order of the rows */
    const float *row = (const float *)record, *x = (const float *)m->state;
    float y;

    if (gw_warp_size() == 1)
        y = mr_dot(row, x, bytes / sizeof(float));
    else
        y = matvec_row(row, x, bytes / sizeof(float), (*sum)[gw_warp_idx()]);
    if (gw_lane() == 0) mr_emit(m, &key, sizeof(key), &y, sizeof(y));
    gw_syncwarp(gw_warp_mask()); /* the next row may change the sums now */
}

GW_DEV void matvec_reduce(struct mr_reduce *r, const uint8_t *key, uint32_t bytes)
{
    (void)key;
    (void)bytes;
    mr_put(r, mr_next(r, NULL), sizeof(float));
}

#ifndef __CUDACC__
static int matvec_load(struct mr_host *h, const char *path, FILE *f)
{
    static uint8_t head[MR_NPY_HEADER];
    struct mr_npy npy;
    size_t n = fread(head, 1, sizeof(head), f);
    long size;
    void *x;

    if (fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0) return mr_fail(h, -EIO, "%s: cannot read it", path);
    if (mr_npy_parse(head, n, (uint64_t)size, path, &npy)) return mr_fail(h, -EINVAL, "%s", gw_last_error());
    if (npy.type != 'f' || npy.item != 4 || (npy.columns != 1 && npy.rows != 1) ||
        npy.rows * npy.columns != h->record / sizeof(float))
        return mr_fail(h, -EINVAL, "%s: must hold %zu values of float32, as the matrix has columns", path,
                       h->record / sizeof(float));
    x = mr_state(h, h->record);
    if (!x) return mr_fail(h, -ENOMEM, "no memory for the vector");
    if (fseek(f, (long)npy.start, SEEK_SET) || fread(x, 1, h->record, f) != h->record)
        return mr_fail(h, -EIO, "%s: cannot read it", path);
    return 0;
}

static int matvec_setup(struct mr_host *h, int argc, char **argv)
{
    FILE *f;
    int err;

    if (argc != 1) return mr_fail(h, -EINVAL, "matvec takes one argument, the vector's file");
    if (h->files && (h->type != 'f' || h->item != 4))
        return mr_fail(h, -EINVAL, "the matrix must hold float32");
    f = fopen(argv[0], "rb");
    if (!f) return mr_fail(h, -errno, "%s: %s", argv[0], strerror(errno));
    err = matvec_load(h, argv[0], f);
    fclose(f);
    return err;
}

/* The parts' values become an .npy file. */
static int matvec_round(struct mr_host *h, const uint8_t *out, uint64_t bytes)
{
    char header[MR_NPY_WRITTEN];
    size_t n = mr_npy_header(header, mr_records(h), 0);

    if (bytes != mr_records(h) * sizeof(float)) return mr_fail(h, -EIO, "some rows have no result");
    return mr_result(h, header, n) || mr_result(h, out, bytes)
               ? mr_fail(h, -ENOMEM, "no memory for the result")
               : 0;
}
#endif

MR_JOB(matvec, matvec_map, MR_NO_COMBINE, matvec_reduce, .what = "multiplies a matrix with a vector (.npy)",
       .setup = matvec_setup, .round = matvec_round, .args = "VECTOR.npy", .input = MR_NPY, .by = MR_BY_WARP,
       .threads = MATVEC_THREADS, .flags = MR_SORT | MR_ORDER, .key = 8, .value = sizeof(float));
