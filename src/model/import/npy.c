/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes numpy's files: a header in Python's syntax, then the elements. Nothing in a file is
 * trusted. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/model/import/npy.h"

#include "src/model/graph/graph.h"
#include "src/model/graph/msg.h"

#define MAX_HEADER 4096
#define MAX_BYTES  ((uint64_t)1 << 32)

/* Finds `'key':` in the header's dictionary and returns what follows. */
static const char *after_key(const char *header, const char *key)
{
    const char *p = strstr(header, key);

    if (!p) return NULL;
    p += strlen(key);
    while (*p == ' ') p++;
    if (*p++ != ':') return NULL;
    while (*p == ' ') p++;
    return p;
}

static const struct {
    const char *name;
    uint32_t dtype;
} types[] = {
    {"<f4", GW_DTYPE_F32}, {"<f2", GW_DTYPE_F16},  {"<V2", GW_DTYPE_BF16}, {"|V2", GW_DTYPE_BF16},
    {"<f8", GW_DTYPE_F64}, {"|b1", GW_DTYPE_BOOL}, {"|u1", GW_DTYPE_U8},   {"|i1", GW_DTYPE_I8},
    {"<u2", GW_DTYPE_U16}, {"<i2", GW_DTYPE_I16},  {"<u4", GW_DTYPE_U32},  {"<i4", GW_DTYPE_I32},
    {"<u8", GW_DTYPE_U64}, {"<i8", GW_DTYPE_I64},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

/* 0: none that a model takes. */
static uint32_t parse_type(const char *descr)
{
    for (size_t i = 0; i < TYPES; i++)
        if (*descr == '\'' && !strncmp(descr + 1, types[i].name, 3) && descr[4] == '\'')
            return types[i].dtype;
    return 0;
}

static const char *npy_type_name(uint32_t dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}

static int parse_shape(const char *p, struct gw_npy *npy)
{
    uint64_t count = 1;

    npy->rank = 0;
    if (!p || *p++ != '(') return -EBADMSG;
    for (;;) {
        char *end;
        while (*p == ' ' || *p == ',') p++;
        if (*p == ')') break;
        if (*p < '0' || *p > '9') return -EBADMSG;
        if (npy->rank == GW_MODEL_MAX_RANK) return -ENOTSUP;
        uint64_t d = strtoull(p, &end, 10);
        if (d > MAX_BYTES || (count *= d) > MAX_BYTES / gw_dtype_bytes(npy->dtype)) return -EFBIG;
        npy->dims[npy->rank++] = d;
        p = end;
    }
    npy->count = count;
    return 0;
}

static int read_header(FILE *f, struct gw_npy *npy, const struct gwm_msg *msg)
{
    unsigned char pre[12];
    char header[MAX_HEADER + 1];
    size_t len, at = 10;

    if (fread(pre, 1, 10, f) != 10 || memcmp(pre, "\x93NUMPY", 6))
        return gwm_fail(msg, -EBADMSG, "not a .npy file");
    len = pre[8] | (size_t)pre[9] << 8;
    if (pre[6] > 1) { /* later versions have a longer length */
        if (fread(pre + 10, 1, 2, f) != 2) return gwm_fail(msg, -EBADMSG, "truncated");
        len |= (size_t)pre[10] << 16 | (size_t)pre[11] << 24;
        at = 12;
    }
    if (len > MAX_HEADER - at) return gwm_fail(msg, -EBADMSG, "not a .npy file: its header is too long");
    if (fread(header, 1, len, f) != len) return gwm_fail(msg, -EBADMSG, "truncated");
    header[len] = '\0';
    const char *descr = after_key(header, "'descr'"), *order = after_key(header, "'fortran_order'");
    if (!descr || !order) return gwm_fail(msg, -EBADMSG, "not a .npy file: its header makes no sense");
    npy->dtype = parse_type(descr);
    if (!npy->dtype)
        return gwm_fail(
            msg, -ENOTSUP,
            "its elements are not little-endian numbers that models take; use array.astype('<f4')");
    if (strncmp(order, "False", 5))
        return gwm_fail(msg, -ENOTSUP, "it is in Fortran order; use numpy.ascontiguousarray");
    int err = parse_shape(after_key(header, "'shape'"), npy);
    return err ? gwm_fail(msg, err, "its shape is damaged or too large") : 0;
}

int gw_npy_read(const char *path, struct gw_npy *npy, char *why, size_t errlen)
{
    const struct gwm_msg msg = {why, errlen, path};
    FILE *f = fopen(path, "rbe");

    memset(npy, 0, sizeof(*npy));
    if (!f) return gwm_fail(&msg, -errno, "%s", strerror(errno));
    int err = read_header(f, npy, &msg);
    if (!err) {
        size_t bytes = npy->count * gw_dtype_bytes(npy->dtype);
        npy->data = aligned_alloc(64, (bytes + 64) / 64 * 64);
        if (!npy->data)
            err = gwm_fail(&msg, -ENOMEM, "out of memory");
        else if (fread(npy->data, 1, bytes, f) != bytes)
            err =
                gwm_fail(&msg, ferror(f) ? -EIO : -EBADMSG, "%s", ferror(f) ? "cannot be read" : "truncated");
    }
    fclose(f);
    if (err) gw_npy_free(npy);
    return err;
}

void gw_npy_free(struct gw_npy *npy)
{
    free(npy->data);
    memset(npy, 0, sizeof(*npy));
}

int gw_npy_write(const char *path, const struct gw_npy *npy, char *err, size_t errlen)
{
    const struct gwm_msg msg = {err, errlen, path};
    char header[512] = "\x93NUMPY\x01";
    const char *type = npy_type_name(npy->dtype);
    size_t bytes = npy->count * gw_dtype_bytes(npy->dtype);
    int n = 10;

    if (npy->rank > GW_MODEL_MAX_RANK || !type) return gwm_fail(&msg, -EINVAL, "numpy has no such array");
    n += snprintf(header + n, 128, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (uint32_t i = 0; i < npy->rank; i++)
        n += snprintf(header + n, 32, "%" PRIu64 "%s", npy->dims[i],
                      npy->rank == 1 || i + 1 < npy->rank ? "," : "");
    n += snprintf(header + n, 8, "), }");
    while ((n + 1) % 64) header[n++] = ' ';
    header[n++] = '\n';
    header[8] = (char)((n - 10) & 0xff);
    header[9] = (char)((n - 10) >> 8);
    FILE *f = fopen(path, "wbe");
    if (!f) return gwm_fail(&msg, -errno, "%s", strerror(errno));
    struct stat st;
    bool regular = !fstat(fileno(f), &st) && S_ISREG(st.st_mode); /* a device is not ours to remove */
    bool ok = fwrite(header, 1, (size_t)n, f) == (size_t)n && fwrite(npy->data, 1, bytes, f) == bytes;
    int code = ok ? 0 : -errno;
    if (fclose(f) && ok) code = -errno;
    if (!code) return 0;
    if (regular) unlink(path);
    return gwm_fail(&msg, code, "%s", strerror(-code));
}

static int npy_shape_text(char *out, size_t size, const uint64_t *dims, uint32_t rank)
{
    int n = snprintf(out, size, rank ? "" : "scalar");

    for (uint32_t i = 0; i < rank && n >= 0 && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%" PRIu64, i ? "x" : "", dims[i]);
    return n;
}

int gw_npy_fits(const struct gw_npy *npy, const struct gw_tensor_info *info, char *err, size_t errlen)
{
    const struct gwm_msg msg = {err, errlen, info->name};
    char got[96], want[96];

    if (npy->dtype != info->dtype)
        return gwm_fail(&msg, -EINVAL, "the model wants elements of type %s, the array has %s",
                        gw_dtype_name(info->dtype), gw_dtype_name(npy->dtype));
    if (npy->rank == info->rank && !memcmp(npy->dims, info->dims, npy->rank * sizeof(npy->dims[0]))) return 0;
    npy_shape_text(got, sizeof(got), npy->dims, npy->rank);
    npy_shape_text(want, sizeof(want), info->dims, info->rank);
    return gwm_fail(&msg, -EINVAL, "the model wants %s, the array is %s", want, got);
}

void gw_tensor_compare(const float *got, const float *want, size_t count, double rel,
                       struct gw_tensor_diff *diff)
{
    double scale = 0;

    *diff = (struct gw_tensor_diff){0};
    for (size_t i = 0; i < count; i++)
        if (isfinite(want[i]) && fabs((double)want[i]) > scale) scale = fabs((double)want[i]);
    for (size_t i = 0; i < count; i++) {
        double d = got[i] == want[i] ? 0 : fabs((double)got[i] - (double)want[i]);
        if (d != 0) d /= scale > 0 ? scale : 1;
        if (!(d <= rel)) {
            if (!diff->wrong++) diff->first = i;
        }
        if (!(d <= diff->worst)) diff->worst = d;
    }
}
