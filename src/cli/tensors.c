/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tensors from files, and writes answers to files or to the terminal. */
#include "src/cli/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"

/* ---- files ---- */

int gw_files_add(const char *command, const char *option, struct gw_files *f, const char *text)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    int named = equals && (!slash || slash > equals);
    size_t length = named ? (size_t)(equals - text) : 0;
    if (f->count == GW_CLIENT_MAX_IO)
        return gw_usage_error(command, "%s: given more than %d times", option, GW_CLIENT_MAX_IO);
    if (length >= GW_CLIENT_NAME || (named && !length) || !(named ? equals[1] : text[0]))
        return gw_usage_error(command, "%s %s: expected NAME=FILE", option, text);
    memcpy(f->file[f->count].name, text, length);
    f->file[f->count].name[length] = 0;
    f->file[f->count].unnamed = !named;
    f->file[f->count++].path = named ? equals + 1 : text;
    return 0;
}

int gw_arrays_read(struct gw_arrays *a, const struct gw_files *files)
{
    char why[GW_MODEL_ERR] = "";
    a->files = files;
    for (uint32_t i = 0; i < files->count; i++) {
        struct gw_npy *npy = &a->npy[i];
        struct gw_client_shape *s = &a->shape[i];
        int err = gw_npy_read(files->file[i].path, npy, why, sizeof(why));
        if (err) return gw_error(err, "%s", why);
        a->count++;
        s->name = files->file[i].unnamed ? NULL : files->file[i].name;
        s->rank = npy->rank;
        for (uint32_t k = 0; k < npy->rank; k++) s->dims[k] = (int64_t)npy->dims[k];
    }
    return 0;
}

void gw_arrays_free(struct gw_arrays *a)
{
    for (uint32_t i = 0; i < a->count; i++) gw_npy_free(&a->npy[i]);
    a->count = 0;
}

/* ---- inputs ---- */

/* Which tensor of the model a file is for; -1: none, as gw_last_error() then says. */
static int tensors_find(const struct gw_client *c, const struct gw_files *f, uint32_t k, int output)
{
    uint32_t n = output ? gw_client_outputs(c) : gw_client_inputs(c);
    const char *what = output ? "output" : "input";
    if (f->file[k].unnamed && n == 1) return 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct gw_client_tensor *t = output ? gw_client_output(c, i) : gw_client_input(c, i);
        if (!f->file[k].unnamed && !strcmp(t->name, f->file[k].name)) return (int)i;
    }
    const char *first = output ? gw_client_output(c, 0)->name : gw_client_input(c, 0)->name;
    if (f->file[k].unnamed)
        gw_error(-EINVAL, "%s: which %s is it for? The model has %u: give --%s NAME=FILE", f->file[k].path,
                 what, n, what);
    else
        gw_error(-EINVAL, "%s: the model has no %s %s (its first is %s)", f->file[k].path, what,
                 f->file[k].name, first);
    return -1;
}

static int fit_one(const struct gw_npy *npy, const char *path, const struct gw_client_tensor *t,
                   uint32_t *rows)
{
    char why[GW_MODEL_ERR] = "";
    struct gw_tensor_info info = {.name = t->name, .dtype = t->dtype, .rank = t->rank};
    for (uint32_t i = 0; i < t->rank; i++) info.dims[i] = (uint64_t)t->dims[i];
    if (t->batched && npy->rank == t->rank) {
        if (!npy->dims[0] || npy->dims[0] > UINT32_MAX || (*rows && npy->dims[0] != *rows))
            return gw_error(-EINVAL,
                            "%s: it has %" PRIu64 " samples, and all inputs must have as many, 1 or more",
                            path, npy->dims[0]);
        info.dims[0] = *rows = (uint32_t)npy->dims[0];
    }
    int err = gw_npy_fits(npy, &info, why, sizeof(why));
    return err ? gw_error(err, "%s: %s", path, why) : 0;
}

int gw_arrays_fit(struct gw_arrays *a, const struct gw_client *c, uint32_t *rows)
{
    uint32_t given = 0;
    *rows = 0;
    for (uint32_t k = 0; k < a->count; k++) {
        int i = tensors_find(c, a->files, k, 0);
        if (i < 0) return -EINVAL;
        if (given >> i & 1)
            return gw_error(-EINVAL, "%s: input %s is given twice", a->files->file[k].path,
                            gw_client_input(c, (uint32_t)i)->name);
        given |= 1u << i;
        a->input[k] = (uint32_t)i;
        int err = fit_one(&a->npy[k], a->files->file[k].path, gw_client_input(c, (uint32_t)i), rows);
        if (err) return err;
    }
    for (uint32_t i = 0; i < gw_client_inputs(c); i++)
        if (!(given >> i & 1))
            return gw_error(-EINVAL, "the model also wants input %s: give --input %s=FILE.npy",
                            gw_client_input(c, i)->name, gw_client_input(c, i)->name);
    if (!*rows) *rows = 1;
    if (*rows > gw_client_rows(c))
        return gw_error(-EINVAL, "%s: it has %u samples, and the server takes %u in one request",
                        a->files->file[0].path, *rows, gw_client_rows(c));
    return 0;
}

void gw_arrays_copy(const struct gw_arrays *a, struct gw_client *c, uint32_t slot, uint32_t rows)
{
    for (uint32_t k = 0; k < a->count; k++)
        memcpy(gw_client_slot_input(c, slot, a->input[k], rows), a->npy[k].data,
               a->npy[k].count * gw_dtype_bytes(a->npy[k].dtype));
}

/* ---- outputs ---- */

int gw_files_fit(const struct gw_files *f, const struct gw_client *c)
{
    for (uint32_t k = 0; k < f->count; k++)
        if (tensors_find(c, f, k, 1) < 0) return -EINVAL;
    return 0;
}

static uint64_t tensors_elements(const struct gw_client_output *o)
{
    return o->bytes / gw_dtype_bytes(o->dtype);
}

int gw_reply_save(const struct gw_client *c, const struct gw_client_reply *r, const struct gw_files *f)
{
    char why[GW_MODEL_ERR] = "";
    for (uint32_t k = 0; k < f->count; k++) {
        const struct gw_client_output *o = &r->out[tensors_find(c, f, k, 1)];
        struct gw_npy npy = {
            .dtype = o->dtype, .rank = o->rank, .count = tensors_elements(o), .data = (void *)o->data};
        for (uint32_t i = 0; i < o->rank; i++) npy.dims[i] = (uint64_t)o->dims[i];
        int err = gw_npy_write(f->file[k].path, &npy, why, sizeof(why));
        if (err) return gw_error(err, "%s", why);
    }
    return 0;
}

static float half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float v = exponent == 31 ? (fraction ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(fraction + 1024), exponent - 25)
                             : ldexpf((float)fraction, -24);
    return h >> 15 ? -v : v;
}

static float brain(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* JSON has no word for what is no finite number. */
static void tensors_print_real(double v, int digits)
{
    if (isfinite(v))
        printf("%.*g", digits, v);
    else
        printf("null");
}

static void print_element(const void *data, uint32_t dtype, uint64_t i)
{
    switch (dtype) {
    case GW_DTYPE_F32: tensors_print_real((double)((const float *)data)[i], 9); break;
    case GW_DTYPE_F64: tensors_print_real(((const double *)data)[i], 17); break;
    case GW_DTYPE_F16: tensors_print_real((double)half(((const uint16_t *)data)[i]), 5); break;
    case GW_DTYPE_BF16: tensors_print_real((double)brain(((const uint16_t *)data)[i]), 4); break;
    case GW_DTYPE_BOOL: printf(((const uint8_t *)data)[i] ? "true" : "false"); break;
    case GW_DTYPE_U8: printf("%u", (unsigned)((const uint8_t *)data)[i]); break;
    case GW_DTYPE_I8: printf("%d", ((const int8_t *)data)[i]); break;
    case GW_DTYPE_U16: printf("%u", (unsigned)((const uint16_t *)data)[i]); break;
    case GW_DTYPE_I16: printf("%d", ((const int16_t *)data)[i]); break;
    case GW_DTYPE_U32: printf("%" PRIu32, ((const uint32_t *)data)[i]); break;
    case GW_DTYPE_I32: printf("%" PRId32, ((const int32_t *)data)[i]); break;
    case GW_DTYPE_U64: printf("%" PRIu64, ((const uint64_t *)data)[i]); break;
    default: printf("%" PRId64, ((const int64_t *)data)[i]);
    }
}

int gw_reply_print(const struct gw_client *c, const struct gw_client_reply *r)
{
    printf("{\"outputs\": [");
    for (uint32_t i = 0; i < r->outputs; i++) {
        const struct gw_client_output *o = &r->out[i];
        json_t *name = json_string(gw_client_output(c, i)->name);
        char *text = json_dumps(name, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        json_decref(name);
        if (!text) return gw_error_errno(-ENOMEM, "printing the answer");
        printf("%s{\"name\": %s, \"datatype\": \"%s\", \"shape\": [", i ? ", " : "", text,
               gw_dtype_name(o->dtype));
        free(text);
        for (uint32_t k = 0; k < o->rank; k++) printf("%s%" PRId64, k ? ", " : "", o->dims[k]);
        printf("], \"data\": [");
        for (uint64_t k = 0; k < tensors_elements(o); k++) {
            if (k) printf(", ");
            print_element(o->data, o->dtype, k);
        }
        printf("]}");
    }
    printf("]}\n");
    return 0;
}
