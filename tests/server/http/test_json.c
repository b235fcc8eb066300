/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in JSON: what arrays of numbers are taken, what is written, and the request around them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/model.h>

#include "src/server/http/ask.h"
#include "src/server/http/elements.h"
#include "src/door/text.h"

static int reads(const char *text, uint32_t dtype, uint64_t count, void *to)
{
    const char *why = NULL;
    int wrong = gw_elements_read(text, strlen(text), dtype, count, to, &why);
    assert_true(!wrong || why);
    return !wrong;
}

static void arrays_may_be_flat_or_nested(void **state)
{
    (void)state;
    float f[4];
    static const char *const good[] = {"[1,2,3,4]",         "[[1,2],[3,4]]", " [ [1 , 2],\n[3],[4]\t] ",
                                       "[[[[1]]],2,[3,4]]", "[[],1,2,3,4]",  "[1.0e0,0.2e1,3,40E-1]"};
    static const char *const bad[] = {"",
                                      "1,2,3,4",
                                      "[1,2,3]",
                                      "[1,2,3,4,5]",
                                      "[1,2,3,4",
                                      "[1,2,3,4]]",
                                      "[1,2 3,4]",
                                      "[1,,2,3]",
                                      "[1,2,3,4,]",
                                      "[,1,2,3,4]",
                                      "[1,2,3,\"4\"]",
                                      "[1,2,3,x]",
                                      "[1,2,3,nan]",
                                      "[1,2,3,0x4]",
                                      "[1,2,3,04]",
                                      "[1,2,3,1e39]",
                                      "[1,2,3,{}]",
                                      "[1,2,3,inf]",
                                      "[1,2,3,+4]",
                                      "[[[[[[[[[[[[[[[[[1,2,3,4]]]]]]]]]]]]]]]]]"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        memset(f, 0, sizeof(f));
        const char *text = good[i];
        while (*text == ' ') text++;
        assert_true(reads(text, GW_DTYPE_F32, 4, f));
        for (int k = 0; k < 4; k++) assert_true(f[k] == (float)(k + 1));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (reads(bad[i], GW_DTYPE_F32, 4, f)) fail_msg("%s was taken", bad[i]);
    assert_true(reads("[]", GW_DTYPE_F32, 0, f));
}

static void integers_have_their_ranges(void **state)
{
    (void)state;
    static const struct {
        uint32_t dtype;
        const char *least, *most, *below, *above;
    } types[] = {
        {GW_DTYPE_I8, "[-128]", "[127]", "[-129]", "[128]"},
        {GW_DTYPE_U8, "[0]", "[255]", "[-1]", "[256]"},
        {GW_DTYPE_I16, "[-32768]", "[32767]", "[-32769]", "[32768]"},
        {GW_DTYPE_U16, "[0]", "[65535]", "[-1]", "[65536]"},
        {GW_DTYPE_I32, "[-2147483648]", "[2147483647]", "[-2147483649]", "[2147483648]"},
        {GW_DTYPE_U32, "[0]", "[4294967295]", "[-1]", "[4294967296]"},
        {GW_DTYPE_I64, "[-9223372036854775808]", "[9223372036854775807]", "[-9223372036854775809]",
         "[9223372036854775808]"},
        {GW_DTYPE_U64, "[0]", "[18446744073709551615]", "[-1]", "[18446744073709551616]"},
        {GW_DTYPE_BOOL, "[false]", "[true]", "[-1]", "[2]"},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        uint64_t v = 0;
        struct gw_text t = {0};
        assert_true(reads(types[i].least, types[i].dtype, 1, &v));
        gw_elements_write(&t, types[i].dtype, 1, &v);
        assert_string_equal(t.at, types[i].least);
        free(t.at);
        t = (struct gw_text){0};
        assert_true(reads(types[i].most, types[i].dtype, 1, &v));
        gw_elements_write(&t, types[i].dtype, 1, &v);
        assert_string_equal(t.at, types[i].most);
        free(t.at);
        assert_false(reads(types[i].below, types[i].dtype, 1, &v));
        assert_false(reads(types[i].above, types[i].dtype, 1, &v));
        assert_false(reads("[1.5]", types[i].dtype, 1, &v));
        assert_false(reads("[1e0]", types[i].dtype, 1, &v));
    }
    assert_false(gw_elements_in_json(GW_DTYPE_F16) || gw_elements_in_json(GW_DTYPE_BF16) ||
                 gw_elements_in_json(0));
}

static void what_is_written_is_what_is_read(void **state)
{
    (void)state;
    float f[6] = {0.1f, -3.4028235e38f, 1e-45f, 16777217.0f, NAN, INFINITY}, back[4];
    struct gw_text t = {0};
    gw_elements_write(&t, GW_DTYPE_F32, 4, f);
    assert_true(reads(t.at, GW_DTYPE_F32, 4, back));
    assert_memory_equal(f, back, sizeof(back));
    t.bytes = 0;
    gw_elements_write(&t, GW_DTYPE_F32, 2, f + 4);
    assert_string_equal(t.at, "[null,null]");
    t.bytes = 0;
    double d = 0.1, again;
    gw_elements_write(&t, GW_DTYPE_F64, 1, &d);
    assert_true(reads(t.at, GW_DTYPE_F64, 1, &again));
    assert_true(d == again);
    free(t.at);
}

static int parses(const char *text, struct gw_http_ask *a)
{
    struct gw_infer_error error = {.text = ""};
    int wrong = gw_http_ask_parse(text, strlen(text), a, &error);
    assert_true(!wrong || error.text[0]);
    return !wrong;
}

static void requests_say_where_their_tensors_are(void **state)
{
    (void)state;
    struct gw_http_ask a;
    assert_true(
        parses("{ "
               "\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":true}},{\"name\":\"z\"}],\"id\":"
               "\"\\u00e9\","
               "\"parameters\":{\"priority\":3,\"timeout\":5000},"
               "\"inputs\" : [ {\"data\" : [1,[\"]\"],{}] "
               ",\"name\":\"in\\\"puts\",\"shape\":[2,1],\"datatype\":\"FP32\"},"
               "{\"name\":\"b\",\"shape\":[],\"datatype\":\"U\",\"parameters\":{\"binary_data_size\":12}}]}",
               &a));
    assert_string_equal(a.id, "\xc3\xa9");
    assert_int_equal(a.request.inputs, 2);
    assert_string_equal(a.request.input[0].name, "in\"puts");
    assert_int_equal(a.input[0].json->bytes, strlen("[1,[\"]\"],{}] ") - 1);
    assert_int_equal(a.request.input[0].dims[0], 2);
    assert_true(a.input[1].binary && a.input[1].binary_bytes == 12 && !a.input[1].json);
    assert_int_equal(a.request.outputs, 2);
    assert_true(a.binary_output[0] && !a.binary_output[1]);
    assert_int_equal(a.request.priority, 3);
    assert_int_equal(a.request.timeout_us, 5000);
    gw_http_ask_free(&a);
}

static void senseless_requests_are_refused(void **state)
{
    (void)state;
#define INPUT(more) "{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"datatype\":\"FP32\"" more "}]}"
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"inputs\":1}",
        "{\"inputs\":[1]}",
        "{\"inputs\":[{}]}",
        INPUT(""),
        INPUT(",\"data\":[1],\"data\":[1]"),
        INPUT(",\"data\":[1],\"parameters\":{\"binary_data_size\":4}"),
        INPUT(",\"parameters\":{\"binary_data_size\":-4}"),
        INPUT(",\"parameters\":{\"binary_data_size\":\"4\"}"),
        INPUT(",\"parameters\":[]"),
        INPUT(",\"parameters\":{\"shared_memory_region\":\"r\"}"),
        INPUT(",\"parameters\":{\"shared_memory_region\":7,\"shared_memory_byte_size\":4}"),
        INPUT(",\"d\\u0061ta\":[1]"), /* a key that is only found when it is too late */
        INPUT(",\"d\\u0061ta\":0"),
        INPUT(",\"data\":[1"),
        "{\"inputs\":[],\"id\":7}",
        "{\"inputs\":[],\"outputs\":7}",
        "{\"inputs\":[],\"outputs\":[{}]}",
        "{\"inputs\":[],\"parameters\":{\"timeout\":-1}}",
        "{\"inputs\":[],\"parameters\":{\"timeout\":1.5}}",
        "{\"inputs\":[],\"parameters\":{\"sequence_id\":5}}",
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1,1,1,1,1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]}]}",
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[-1],\"datatype\":\"FP32\",\"data\":[1]}]}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct gw_http_ask a;
        if (parses(bad[i], &a)) fail_msg("%s was taken", bad[i]);
        gw_http_ask_free(&a);
    }
}

/* Where 2.5 is written 2,5; it is made when the system has none. */
static int set_german(void)
{
    char dir[] = "/tmp/json-locale-XXXXXX", command[256];
    if (setlocale(LC_ALL, "de_DE.UTF-8")) return 0;
    if (!mkdtemp(dir)) return -1;
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", dir);
    int made = system(command);
    setenv("LOCPATH", dir, 1);
    const char *set = setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) || !set || made < 0 ? -1 : 0;
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    static const float two[] = {2.5f, -0.125f};
    struct gw_text t = {0};
    struct gw_infer_error error;
    float f[2];
    (void)state;
    if (set_german()) skip();
    char here[16];
    snprintf(here, sizeof(here), "%.1f", 2.5);
    assert_string_equal(here, "2,5");
    gw_elements_write(&t, GW_DTYPE_F32, 2, two);
    gw_text_printf(&t, " %.3f", 0.5);
    assert_string_equal(t.at, "[2.5,-0.125] 0.500");
    free(t.at);
    assert_true(reads("[2.5,-0.125]", GW_DTYPE_F32, 2, f));
    assert_true(f[0] == 2.5f && f[1] == -0.125f);
    gw_error(-EINVAL, "%.1f", 2.5);
    assert_string_equal(gw_last_error(), "2.5");
    gw_infer_fail(&error, GW_INFER_INVALID, "%.1f", 2.5);
    assert_string_equal(error.text, "2.5");
    snprintf(here, sizeof(here), "%.1f", 2.5); /* the program's own is as it was */
    assert_string_equal(here, "2,5");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(arrays_may_be_flat_or_nested),
        cmocka_unit_test(integers_have_their_ranges),
        cmocka_unit_test(what_is_written_is_what_is_read),
        cmocka_unit_test(requests_say_where_their_tensors_are),
        cmocka_unit_test(senseless_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
