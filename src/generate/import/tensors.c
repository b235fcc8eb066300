/* SPDX-License-Identifier: Apache-2.0 */
/* Reads safetensors files. A header is a stranger's: each place is checked against the file's size. */
#include "src/generate/import/tensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/import/json.h"

static const struct {
    char name[8];
    uint32_t bits;
} tensor_types[] = {
    {"F64", 64}, {"F32", 32}, {"F16", 16}, {"BF16", 16},   {"I64", 64},
    {"I32", 32}, {"I16", 16}, {"I8", 8},   {"U64", 64},    {"U32", 32},
    {"U16", 16}, {"U8", 8},   {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
};

void gen_tensors_free(struct gen_tensors *t)
{
    for (size_t i = 0; i < t->n; i++) free(t->tensor[i].name);
    free(t->tensor);
    *t = (struct gen_tensors){0};
}

static int safetensor_compare(const void *a, const void *b)
{
    return strcmp(((const struct gen_tensor *)a)->name, ((const struct gen_tensor *)b)->name);
}

const struct gen_tensor *gen_tensors_find(const struct gen_tensors *t, const char *name)
{
    struct gen_tensor key = {.name = (char *)(uintptr_t)name};

    return t->n ? bsearch(&key, t->tensor, t->n, sizeof(key), safetensor_compare) : NULL;
}

/* Bits of an element; 0: the type is not known. */
static uint32_t safetensor_bits(const char *type)
{
    for (size_t i = 0; i < sizeof(tensor_types) / sizeof(tensor_types[0]); i++)
        if (!strcmp(tensor_types[i].name, type)) return tensor_types[i].bits;
    return 0;
}

/* The shape, and the bytes that it takes; false: it is none, or it has too many elements. */
static bool safetensor_shape(const json_t *shape, uint32_t bits, struct gen_tensor *t, uint64_t *bytes)
{
    uint64_t count = 1;

    if (!json_is_array(shape) || json_array_size(shape) > GEN_TENSOR_RANK) return false;
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++) {
        json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0) return false;
        t->shape[i] = (uint64_t)json_integer_value(d);
        if (__builtin_mul_overflow(count, t->shape[i], &count)) return false;
    }
    if (__builtin_mul_overflow(count, (uint64_t)bits / 8, bytes)) return false;
    return true;
}

/* Reads "data_offsets": [begin, end], which are counted from the header's end. */
static bool safetensor_range(const json_t *offsets, size_t size, uint64_t bytes, uint64_t *begin)
{
    json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);

    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e)) return false;
    if (json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b)) return false;
    *begin = (uint64_t)json_integer_value(b);
    return (uint64_t)json_integer_value(e) <= size && (uint64_t)json_integer_value(e) - *begin == bytes;
}

static int safetensor_add(struct gen_tensors *all, const char *file, const char *name, json_t *what,
                          const uint8_t *data, size_t size)
{
    const char *type = json_string_value(json_object_get(what, "dtype"));
    struct gen_tensor t = {0};
    uint64_t bytes, begin;
    uint32_t bits = type ? safetensor_bits(type) : 0;

    if (!bits)
        return gw_error(-ENOTSUP, "%s: tensor '%.80s': type '%.20s' is not supported", file, name,
                        type ? type : "");
    if (!safetensor_shape(json_object_get(what, "shape"), bits, &t, &bytes))
        return gw_error(-EBADMSG, "%s: tensor '%.80s': its shape is none of up to %d dimensions", file, name,
                        GEN_TENSOR_RANK);
    if (!safetensor_range(json_object_get(what, "data_offsets"), size, bytes, &begin))
        return gw_error(
            -EBADMSG, "%s: tensor '%.80s': its place is not in the file, or has another size than its shape",
            file, name);
    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct gen_tensor *grown = reallocarray(all->tensor, room, sizeof(*grown));
        if (!grown) return gw_error(-ENOMEM, "%s: no memory", file);
        all->tensor = grown;
        all->room = room;
    }
    snprintf(t.type, sizeof(t.type), "%s", type);
    t.data = data + begin;
    if (!(t.name = strdup(name))) return gw_error(-ENOMEM, "%s: no memory", file);
    all->tensor[all->n++] = t;
    return 0;
}

int gen_tensors_add(struct gen_tensors *all, const char *file, const uint8_t *at, size_t size)
{
    struct gen_json header;
    const char *name;
    uint64_t bytes = 0;
    json_t *what;
    int err;

    for (int i = 7; i >= 0 && size >= 8; i--) bytes = bytes << 8 | at[i];
    if (size < 8 || bytes > size - 8) return gw_error(-EBADMSG, "%s: it ends within its header", file);
    if (bytes > GEN_JSON_MAX_INDEX)
        return gw_error(-EFBIG, "%s: its header has more than %zu bytes", file, GEN_JSON_MAX_INDEX);
    if ((err = gen_json_parse(file, at + 8, bytes, &header))) return err;
    json_object_foreach(header.at, name, what)
    {
        if (!strcmp(name, "__metadata__")) continue;
        if ((err = safetensor_add(all, file, name, what, at + 8 + bytes, size - 8 - bytes))) break;
    }
    gen_json_close(&header);
    return err;
}

int gen_tensors_sort(struct gen_tensors *t)
{
    if (t->n) qsort(t->tensor, t->n, sizeof(*t->tensor), safetensor_compare);
    for (size_t i = 1; i < t->n; i++)
        if (!strcmp(t->tensor[i - 1].name, t->tensor[i].name))
            return gw_error(-EBADMSG, "%s: two tensors are called '%.80s'", t->where, t->tensor[i].name);
    return 0;
}

static int tensors_file(struct gen_tensors *t, struct gen_maps *maps, const char *folder, const char *name)
{
    const uint8_t *at = NULL;
    char path[4096];
    size_t size;
    int err;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) return -ENAMETOOLONG;
    err = gen_maps_path(maps, path, &at, &size);
    return err ? err : gen_tensors_add(t, path, at, size);
}

/* A name that stays in the folder. */
static bool plain_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/');
}

/* Each file that the index names, once. */
static int tensors_index(struct gen_tensors *t, struct gen_maps *maps, const char *folder,
                         const struct gen_json *index)
{
    struct gen_json map;
    json_t *seen = json_object(), *file;
    const char *name, *part;
    int err = gen_json_object(index, "weight_map", &map);

    if (err == -ENOENT) err = gw_error(-EBADMSG, "%s: it has no weight_map", index->where);
    if (!seen) err = gw_error(-ENOMEM, "%s: no memory", index->where);
    if (!err) {
        json_object_foreach(map.at, name, file)
        {
            part = json_string_value(file);
            if (!plain_name(part)) {
                err = gw_error(-EBADMSG, "%s: '%.80s' lies in no file of the folder", index->where, name);
                break;
            }
            if (json_object_get(seen, part)) continue;
            if (json_object_set_new(seen, part, json_true()))
                err = gw_error(-ENOMEM, "%s: no memory", index->where);
            if (!err) err = tensors_file(t, maps, folder, part);
            if (err == -ENOENT)
                gw_error(err, "%s/%s: there is no such file; the index names it", folder, part);
            if (err) break;
        }
    }
    json_decref(seen);
    return err;
}

int gen_tensors_open(const char *folder, struct gen_maps *maps, struct gen_tensors *out)
{
    struct gen_json index;
    int err;

    *out = (struct gen_tensors){0};
    snprintf(out->where, sizeof(out->where), "%s", folder);
    err = tensors_file(out, maps, folder, "model.safetensors");
    if (err == -ENOENT) {
        err = gen_json_open(folder, "model.safetensors.index.json", GEN_JSON_MAX_INDEX, &index);
        if (err == -ENOENT)
            return gw_error(err, "%s: it has no model.safetensors and no model.safetensors.index.json",
                            folder);
        if (!err) {
            err = tensors_index(out, maps, folder, &index);
            gen_json_close(&index);
        }
    }
    return err ? err : gen_tensors_sort(out);
}
