/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h: what input files look like, for jobs and for the programs that they are compared with.
 *
 * Host functions return 0 or a negative errno, and leave the reason in gw_last_error(). Files are foreign:
 * every number in them is checked before use. Sizes are bytes.
 */
#ifndef MAPREDUCE_FORMATS_H
#define MAPREDUCE_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/fn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files and folders --------------------------------------------------------------------------------- */

struct mr_found {
    char *path;
    uint64_t size;
};

struct mr_files {
    struct mr_found *file;
    size_t n;
};

enum { MR_MAX_FILES = 1 << 20, MR_MAX_DEPTH = 64 };

/*
 * The files that `paths` name, in the order of their names. A folder stands for all regular files in it and
 * in its folders; symbolic links in it are not followed, so a circle of them is harmless. Errors: a path
 * that is not there, cannot be read or is neither a file nor a folder; -E2BIG: too many files, or folders
 * too deep.
 */
int mr_files_find(char *const *paths, int n, struct mr_files *files);
void mr_files_free(struct mr_files *files);

/* ---- text ---------------------------------------------------------------------------------------------- */

/* Separates words: the C locale's white space. All other bytes, NUL too, are part of a word. */
GW_FN bool mr_is_space(uint8_t byte)
{
    return byte == ' ' || (uint8_t)(byte - '\t') < 5;
}

/* ---- records ------------------------------------------------------------------------------------------- */

enum { MR_RECORD = 100, MR_RECORD_KEY = 10 }; /* TeraSort's */

/* ---- .npy ---------------------------------------------------------------------------------------------- */

/* An array in C order. One dimension is read as many rows of one column. */
struct mr_npy {
    uint64_t rows, columns;
    uint64_t start; /* where the values begin in the file */
    char type;      /* 'f': IEEE floats, 'i' and 'u': integers; little-endian */
    uint32_t item;  /* bytes of a value: 1 to 8; of a float: 2 to 8 */
};

/* The longest header, in bytes. */
enum { MR_NPY_HEADER = 64 << 10 };

/*
 * Reads the header. bytes: the file's first n bytes, all of them or MR_NPY_HEADER. size: the file's. name:
 * for the error's text. Errors: -EINVAL: it is no .npy file of version 1 to 3, its values are no floats or
 * integers, it has more than two dimensions, or its size does not match its shape.
 */
int mr_npy_parse(const void *bytes, size_t n, uint64_t size, const char *name, struct mr_npy *npy);

/* Writes the header of float32 values, and returns its length. columns 0: one dimension. */
enum { MR_NPY_WRITTEN = 128 };
size_t mr_npy_header(char out[MR_NPY_WRITTEN], uint64_t rows, uint64_t columns);

/* The float that the bits of an IEEE half mean. */
GW_FN float mr_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff, bits;
    float f;

    if (rest >= 0x7c00) { /* infinite, or no number */
        bits = sign | 0x7f800000 | (rest & 0x3ff) << 13;
    } else if (rest >= 0x400) {
        bits = sign | ((rest << 13) + (112u << 23));
    } else { /* rest × 2^-24, which a float holds */
        f = (float)rest * (1.0f / 16777216.0f);
        return sign ? -f : f;
    }
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Value i of an array of floats. */
GW_FN float mr_npy_value(const void *values, uint64_t i, uint32_t item)
{
    if (item == 4) return ((const float *)values)[i];
    return item == 8 ? (float)((const double *)values)[i] : mr_half(((const uint16_t *)values)[i]);
}

#ifdef __cplusplus
}
#endif
#endif
