/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker says of a model: what is understood, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/router/metadata.h"

#define TENSOR(name, type, shape) "{\"name\":\"" name "\",\"datatype\":\"" type "\",\"shape\":" shape "}"
#define MODEL(inputs, more)                                                                                  \
    "{\"inputs\":[" inputs "],\"outputs\":[" TENSOR("y", "FP32", "[-1,2]") "]" more "}"

static int reads(const char *json, struct fleet_metadata *m)
{
    return fleet_metadata_read(json, strlen(json), m);
}

static void tensors_are_known(void **state)
{
    struct fleet_metadata m;
    (void)state;
    assert_int_equal(reads(MODEL(TENSOR("x", "FP16", "[-1,3,5]") "," TENSOR("n", "INT64", "[2]"),
                                 ",\"versions\":[\"7\"],\"platform\":\"onnx\",\"max_batch_size\":4"),
                           &m),
                     0);
    assert_int_equal(m.version, 7);
    assert_int_equal(m.max_batch, 4);
    assert_string_equal(gw_model_kind(m.model), "onnx");
    assert_int_equal(gw_model_inputs(m.model), 2);
    assert_int_equal(gw_model_input(m.model, 0)->batched, 1);
    assert_int_equal(gw_model_input(m.model, 0)->bytes, 30);
    assert_int_equal(gw_model_input(m.model, 1)->batched, 0);
    assert_null(gw_model_output(m.model, 1));
    /* 4 rows of 30 bytes, rounded up to the alignment of tensors, and 16 bytes that all rows share. */
    assert_int_equal(gw_layout_offset(&m.in, 1, 4) % GW_SERVE_ALIGN, 0);
    assert_int_equal(gw_layout_bytes(&m.in, 4), gw_layout_offset(&m.in, 1, 4) + 16);
    fleet_metadata_free(&m);
}

static void a_model_without_a_batch_takes_one_sample(void **state)
{
    struct fleet_metadata m;
    (void)state;
    assert_int_equal(reads(MODEL(TENSOR("x", "FP32", "[1,3]"), ",\"max_batch_size\":9"), &m), 0);
    assert_int_equal(m.max_batch, 0);
    fleet_metadata_free(&m);
    assert_int_equal(reads(MODEL(TENSOR("x", "FP32", "[-1]"), ",\"max_batch_size\":1"), &m), 0);
    assert_int_equal(m.max_batch, 0);
    fleet_metadata_free(&m);
    assert_int_equal(reads(MODEL(TENSOR("x", "FP32", "[-1]"), ",\"versions\":[3],\"platform\":5"), &m), 0);
    assert_int_equal(m.version, 1);
    fleet_metadata_free(&m);
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"inputs\":1}",
        "{\"inputs\":[],\"outputs\":[]}",
        MODEL("1", ""),
        MODEL(TENSOR("", "FP32", "[1]"), ""),
        MODEL(TENSOR("x", "FP33", "[1]"), ""),
        MODEL(TENSOR("x", "BYTES", "[1]"), ""),
        MODEL(TENSOR("x", "FP32", "1"), ""),
        MODEL(TENSOR("x", "FP32", "[-2]"), ""),
        MODEL(TENSOR("x", "FP32", "[1,-1]"), ""),
        MODEL(TENSOR("x", "FP32", "[1.5]"), ""),
        MODEL(TENSOR("x", "FP32", "[1,1,1,1,1,1,1,1,1]"), ""),
        MODEL(TENSOR("x", "FP32", "[4294967296,4294967296]"), ""),
        MODEL(TENSOR("x", "FP32", "[9223372036854775807]"), ""),
        MODEL(TENSOR("x", "FP32", "[1]") "," TENSOR("x", "FP32", "[1]"), ""),
        MODEL(TENSOR("x", "FP32", "[-1,262144]"), ",\"max_batch_size\":65536"),
        MODEL(TENSOR("x", "FP32", "[-1]"), ",\"max_batch_size\":-1"),
        MODEL(TENSOR("x", "FP32", "[-1]"), ",\"max_batch_size\":\"4\""),
        MODEL(TENSOR("x", "FP32", "[1]"), "") "x",
    };
    struct fleet_metadata m;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int err = reads(bad[i], &m);
        if (err != -EBADMSG) fail_msg("%s: %d", bad[i], err);
        assert_null(m.model);
        assert_true(strlen(gw_last_error()) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_known),
        cmocka_unit_test(a_model_without_a_batch_takes_one_sample),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
