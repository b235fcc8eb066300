/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metadata.c: reads a model's metadata, and makes a struct gw_model of it. That is what doors describe and
 * check requests against. It has tensors and a name, and nothing that could run.
 */
#include "src/fleet/router/metadata.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define METADATA_NAME  256         /* bytes of a tensor's name with its final zero, as requests may say it */
#define METADATA_BYTES (64u << 10) /* of the whole */
#define METADATA_BATCH 16 /* samples, where the worker does not say how many: the fleet's largest batch */

struct metadata_side {
    uint32_t count;
    struct gw_tensor_info info[GW_MODEL_MAX_IO];
    char name[GW_MODEL_MAX_IO][METADATA_NAME];
};

/* The object behind the struct gw_model. */
struct metadata_model {
    struct gw_model_backend backend; /* its name is the model's kind */
    char kind[64];
    struct metadata_side side[2];
};

static uint32_t metadata_count(const void *model, int output)
{
    return ((const struct metadata_model *)model)->side[output].count;
}

static const struct gw_tensor_info *metadata_info(const void *model, int output, uint32_t i)
{
    const struct metadata_side *s = &((const struct metadata_model *)model)->side[output];
    return i < s->count ? &s->info[i] : NULL;
}

/* ---- reading */

static int metadata_wrong(const char *what, const char *why)
{
    return gw_error(-EBADMSG, "a worker's description of a model: %.60s: %s", what, why);
}

/* Copies a text that is no longer than its place, and not empty. */
static bool metadata_text(const json_t *value, char *to, size_t size)
{
    const char *text = json_string_value(value);
    if (!text || !*text || strlen(text) >= size) return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static int metadata_shape(const json_t *shape, struct gw_tensor_info *t)
{
    uint64_t bytes = gw_dtype_bytes(t->dtype);
    if (!json_is_array(shape) || json_array_size(shape) > GW_MODEL_MAX_RANK)
        return metadata_wrong(t->name, "its shape is no list of up to 8 numbers");
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        json_int_t n = json_integer_value(dim);
        t->batched |= !i && n == -1;
        if (!i && n == -1) n = 1;
        if (!json_is_integer(dim) || n < 0 || (n && bytes > GW_LAYOUT_MAX_BYTES / (uint64_t)n))
            return metadata_wrong(t->name, "a dimension of its shape is not possible");
        t->dims[i] = (uint64_t)n;
        bytes *= (uint64_t)n;
    }
    t->bytes = bytes;
    return 0;
}

static int metadata_tensor(const json_t *one, struct metadata_side *s)
{
    struct gw_tensor_info *t = &s->info[s->count];
    char *name = s->name[s->count];
    const char *type = json_string_value(json_object_get(one, "datatype"));
    if (!metadata_text(json_object_get(one, "name"), name, METADATA_NAME))
        return metadata_wrong("a tensor", "its name is missing, or too long");
    for (uint32_t i = 0; i < s->count; i++)
        if (!strcmp(s->name[i], name)) return metadata_wrong(name, "two tensors have this name");
    t->name = name;
    t->dtype = type ? gw_dtype_parse(type) : 0;
    if (!t->dtype) return metadata_wrong(name, "its datatype is unknown");
    int err = metadata_shape(json_object_get(one, "shape"), t);
    s->count += !err;
    return err;
}

static int metadata_tensors(const json_t *all, const char *what, struct metadata_side *s)
{
    size_t i;
    const json_t *one;
    if (!json_is_array(all) || !json_array_size(all) || json_array_size(all) > GW_MODEL_MAX_IO)
        return metadata_wrong(what, "a model has 1 to 16");
    json_array_foreach((json_t *)all, i, one)
    {
        int err = metadata_tensor(one, s);
        if (err) return err;
    }
    return 0;
}

static int metadata_lay_out(const struct metadata_side *s, uint32_t rows, struct gw_layout *l)
{
    memset(l, 0, sizeof(*l));
    for (uint32_t i = 0; i < s->count; i++)
        if (gw_layout_add(l, s->info[i].bytes, s->info[i].batched, rows))
            return metadata_wrong(s->info[i].name, "requests would be too large");
    return 0;
}

/* As the doors tell it: where no input is batched, a request is one sample. */
static int metadata_batch(const json_t *j, const struct metadata_model *m, struct fleet_metadata *out)
{
    const json_t *most = json_object_get(j, "max_batch_size");
    json_int_t n = most ? json_integer_value(most) : METADATA_BATCH;
    bool batched = false;
    for (uint32_t i = 0; i < m->side[0].count; i++) batched |= m->side[0].info[i].batched != 0;
    if ((most && !json_is_integer(most)) || n < 0 || n > 65536)
        return metadata_wrong("max_batch_size", "not a number of samples");
    out->max_batch = batched && n > 1 ? (uint32_t)n : 0;
    uint32_t rows = out->max_batch ? out->max_batch : 1;
    int err = metadata_lay_out(&m->side[0], rows, &out->in);
    return err ? err : metadata_lay_out(&m->side[1], rows, &out->out);
}

/* The first of the versions, where there is one and it is a number. */
static unsigned metadata_version(const json_t *j)
{
    const char *text = json_string_value(json_array_get(json_object_get(j, "versions"), 0));
    unsigned long n = text ? strtoul(text, NULL, 10) : 1;
    return n && n <= UINT32_MAX ? (unsigned)n : 1;
}

static int metadata_fill(const json_t *j, struct metadata_model *m, struct fleet_metadata *out)
{
    if (!json_is_object(j)) return metadata_wrong("the whole", "not a JSON object");
    if (!metadata_text(json_object_get(j, "platform"), m->kind, sizeof(m->kind)))
        snprintf(m->kind, sizeof(m->kind), "fleet");
    out->version = metadata_version(j);
    int err = metadata_tensors(json_object_get(j, "inputs"), "inputs", &m->side[0]);
    if (!err) err = metadata_tensors(json_object_get(j, "outputs"), "outputs", &m->side[1]);
    return err ? err : metadata_batch(j, m, out);
}

int fleet_metadata_read(const char *json, size_t bytes, struct fleet_metadata *out)
{
    memset(out, 0, sizeof(*out));
    if (bytes > METADATA_BYTES) return metadata_wrong("the whole", "it is too long");
    struct metadata_model *m = calloc(1, sizeof(*m));
    json_t *j = m ? json_loadb(json, bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int err = m ? metadata_fill(j, m, out) : -ENOMEM;
    json_decref(j);
    if (!err) {
        m->backend = (struct gw_model_backend){.abi = GW_MODEL_ABI,
                                               .name = m->kind,
                                               .unload = free,
                                               .count = metadata_count,
                                               .info = metadata_info};
        err = gw_model_wrap(&m->backend, m, &out->model);
    }
    if (err) free(m);
    return err;
}

void fleet_metadata_free(struct fleet_metadata *m)
{
    gw_model_close(m->model);
    memset(m, 0, sizeof(*m));
}
