/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the JSON head of a request, and reads tensors that are given as text. */
#include "src/client/http_json.h"

#include <errno.h>
#include <string.h>

static json_t *input_json(const struct gw_client_tensor *t, uint64_t bytes, uint32_t rows)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++)
        json_array_append_new(shape, json_integer(i == 0 && t->batched ? (json_int_t)rows : t->dims[i]));
    return json_pack("{s:s, s:s, s:o, s:{s:I}}", "name", t->name, "datatype", gw_dtype_name(t->dtype),
                     "shape", shape, "parameters", "binary_data_size", (json_int_t)bytes);
}

char *gw_json_request(const struct gw_client *c, const struct gw_client_request *r)
{
    json_t *inputs = json_array(), *parameters = json_pack("{s:b}", "binary_data_output", 1);
    for (uint32_t i = 0; i < c->model.inputs; i++)
        json_array_append_new(inputs, input_json(&c->model.input[i],
                                                 gw_layout_tensor_bytes(&c->in_layout, i, r->rows), r->rows));
    if (r->priority) json_object_set_new(parameters, "priority", json_integer(r->priority));
    /* Microseconds; a budget below one is still a deadline. */
    if (r->budget_ns)
        json_object_set_new(parameters, "timeout", json_integer((json_int_t)((r->budget_ns + 999) / 1000)));
    json_t *head = json_pack("{s:o, s:o}", "inputs", inputs, "parameters", parameters);
    char *text = head ? json_dumps(head, JSON_COMPACT) : NULL;
    json_decref(head);
    return text;
}

/* ---- numbers ---- */

#define PUT(type, value)                                                                                     \
    do {                                                                                                     \
        type v_ = (type)(value);                                                                             \
        memcpy(to, &v_, sizeof(v_));                                                                         \
        return 0;                                                                                            \
    } while (0)

static int put_real(const json_t *value, uint32_t dtype, uint8_t *to)
{
    if (!json_is_number(value)) return -EPROTO;
    if (dtype == GW_DTYPE_F32) PUT(float, json_number_value(value));
    PUT(double, json_number_value(value));
}

static int put_whole(const json_t *value, uint32_t dtype, uint8_t *to)
{
    json_int_t n = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    if (!json_is_integer(value) && !json_is_boolean(value)) return -EPROTO;
    switch (dtype) {
    case GW_DTYPE_BOOL: PUT(uint8_t, n != 0);
    case GW_DTYPE_U8:
    case GW_DTYPE_I8: PUT(uint8_t, n);
    case GW_DTYPE_U16:
    case GW_DTYPE_I16: PUT(uint16_t, n);
    case GW_DTYPE_U32:
    case GW_DTYPE_I32: PUT(uint32_t, n);
    case GW_DTYPE_U64:
    case GW_DTYPE_I64: PUT(uint64_t, n);
    default: return -EPROTO; /* half floats have no text in this protocol */
    }
}

struct sink {
    uint32_t dtype;
    uint8_t *to;
    uint64_t left;
};

static int http_json_put(const json_t *value, struct sink *s)
{
    int err = 0;
    if (json_is_array(value)) { /* its depth was bounded when the text was read */
        for (size_t i = 0; !err && i < json_array_size(value); i++)
            err = http_json_put(json_array_get(value, i), s);
        return err;
    }
    if (!s->left) return -EPROTO;
    err = s->dtype == GW_DTYPE_F32 || s->dtype == GW_DTYPE_F64 ? put_real(value, s->dtype, s->to)
                                                               : put_whole(value, s->dtype, s->to);
    s->to += gw_dtype_bytes(s->dtype);
    s->left--;
    return err;
}

int gw_json_numbers(const json_t *data, uint32_t dtype, void *to, uint64_t count)
{
    struct sink s = {dtype, to, count};
    int err = http_json_put(data, &s);
    return err ? err : s.left ? -EPROTO : 0;
}
