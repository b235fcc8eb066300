/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files that make_data.py writes. Small enough to be part of every test here. */
#ifndef TESTS_MODEL_PACK_H
#define TESTS_MODEL_PACK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/model.h>

struct pack {
    char *bytes;
    size_t len, at;
};

struct pack_tensor {
    uint32_t dtype, rank, dims[8];
    size_t count, bytes;
    void *data; /* aligned; to be freed */
};

/* A file of the tests' data or of the model repository: beside the program in a bundle, else in the source
 * tree. */
static inline void pack_path(char *out, size_t size, int models, const char *name)
{
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n < 0 ? 0 : n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) *slash = '\0';
    snprintf(out, size, "%s/%s/%s", self, models ? "../models" : "data/model", name);
    if (access(out, R_OK)) snprintf(out, size, "%s/%s", models ? GW_TEST_MODELS : GW_TEST_DATA, name);
}

static inline int pack_open(struct pack *p, const char *name)
{
    char path[1024];
    long n;

    memset(p, 0, sizeof(*p));
    pack_path(path, sizeof(path), 0, name);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) ||
        !(p->bytes = malloc((size_t)n + 1)) || fread(p->bytes, 1, (size_t)n, f) != (size_t)n) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return -1;
    }
    p->len = (size_t)n;
    fclose(f);
    return 0;
}

static inline void pack_close(struct pack *p)
{
    free(p->bytes);
}

static inline const void *pack_bytes(struct pack *p, size_t n)
{
    if (n > p->len - p->at) {
        fprintf(stderr, "the data file is truncated\n");
        exit(1);
    }
    p->at += n;
    return p->bytes + p->at - n;
}

static inline uint32_t pack_u32(struct pack *p)
{
    uint32_t v;

    memcpy(&v, pack_bytes(p, 4), 4);
    return v;
}

static inline const void *pack_blob(struct pack *p, size_t *len)
{
    *len = pack_u32(p);
    return pack_bytes(p, *len);
}

static inline void pack_text(struct pack *p, char *out, size_t size)
{
    size_t n;
    const char *s = pack_blob(p, &n);

    snprintf(out, size, "%.*s", (int)n, s);
}

static inline void pack_tensor(struct pack *p, struct pack_tensor *t)
{
    t->dtype = pack_u32(p);
    t->rank = pack_u32(p);
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        t->dims[i] = pack_u32(p);
        t->count *= t->dims[i];
    }
    t->bytes = t->count * gw_dtype_bytes(t->dtype);
    t->data = aligned_alloc(64, (t->bytes + 64) / 64 * 64);
    memcpy(t->data, pack_bytes(p, t->bytes), t->bytes);
}

/* Past a golden model's inputs and outputs. */
static inline void pack_skip_tensors(struct pack *p)
{
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = pack_u32(p); i; i--) {
            struct pack_tensor t;
            pack_tensor(p, &t);
            free(t.data);
        }
}

#endif
