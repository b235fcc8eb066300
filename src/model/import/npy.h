/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in numpy's .npy files: little-endian, C order. And what tells two tensors apart. */
#ifndef GW_MODEL_NPY_H
#define GW_MODEL_NPY_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/model.h>

struct gw_npy {
    uint32_t dtype; /* enum gw_dtype. numpy has no BF16: two bytes without a type ("V2") are one */
    uint32_t rank;
    uint64_t dims[GW_MODEL_MAX_RANK];
    size_t count; /* elements */
    void *data;   /* aligned to 64 bytes; gw_npy_free */
};

/*
 * Reads a file. -ENOENT, -EACCES, -EIO; -EBADMSG when it is no .npy file or truncated; -ENOTSUP for another
 * type or order; -EFBIG; -ENOMEM. `err` gets one line, as in gpuwire/model.h.
 */
int gw_npy_read(const char *path, struct gw_npy *npy, char *err, size_t errlen);
void gw_npy_free(struct gw_npy *npy);

/* Writes a file, replacing it. A negative errno value, and a line, when that fails; no partial file is left.
 */
int gw_npy_write(const char *path, const struct gw_npy *npy, char *err, size_t errlen);

/* 0 when the array may be fed to that input or is that output; else -EINVAL and a line with both shapes. */
int gw_npy_fits(const struct gw_npy *npy, const struct gw_tensor_info *info, char *err, size_t errlen);

/*
 * How two tensors differ, relative to the largest magnitude in `want`: what cancels to nearly nothing is
 * measured against what was summed. An element is wrong when its difference is more than `rel`; NaN differs
 * from everything.
 */
struct gw_tensor_diff {
    size_t wrong, first; /* how many elements, and the first of them */
    double worst;        /* the largest difference */
};

void gw_tensor_compare(const float *got, const float *want, size_t count, double rel,
                       struct gw_tensor_diff *diff);

#endif
