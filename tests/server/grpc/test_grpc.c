/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's gRPC door: what it answers, and with which status, whatever a client sends. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "health.pb-c.h"
#include "inference.pb-c.h"
#include "tests/server/grpc/client.h"
#include "tests/server/hold.h"
#include "tests/server/process.h"

#define SERVICE(method) "/inference.GRPCInferenceService/" method
enum { N = 64, BYTES = N * sizeof(float) };

static struct worker_process worker;
static struct client client;

static struct answer ask(const char *method, const ProtobufCMessage *m)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(m) + 1);
    assert_non_null(bytes);
    struct ask q = {.method = method, .bytes = bytes, .size = protobuf_c_message_pack(m, bytes)};
    struct answer a = client_ask(&client, &q);
    free(bytes);
    return a;
}

/* ---- inferences of the model `echo`: 64 floats come back ---- */

struct request {
    Inference__ModelInferRequest message;
    Inference__ModelInferRequest__InferInputTensor input, *inputs[2];
    Inference__InferTensorContents contents;
    Inference__ModelInferRequest__InferRequestedOutputTensor output, *outputs[1];
    int64_t shape[8];
    float x[N];
    ProtobufCBinaryData raw[2];
    Inference__InferParameter value[3];
    Inference__ModelInferRequest__InferInputTensor__ParametersEntry entry[3], *entries[3];
    Inference__InferParameter parameter;
    Inference__ModelInferRequest__ParametersEntry set, *sets[1];
};

static void fill(struct request *r, float first)
{
    memset(r, 0, sizeof(*r));
    inference__model_infer_request__init(&r->message);
    inference__model_infer_request__infer_input_tensor__init(&r->input);
    for (int i = 0; i < N; i++) r->x[i] = first + (float)i;
    r->shape[0] = 1;
    r->shape[1] = N;
    r->input.name = (char *)"x";
    r->input.datatype = (char *)"FP32";
    r->input.shape = r->shape;
    r->input.n_shape = 2;
    r->inputs[0] = r->inputs[1] = &r->input;
    r->raw[0] = r->raw[1] = (ProtobufCBinaryData){BYTES, (uint8_t *)r->x};
    r->message.model_name = (char *)"echo";
    r->message.id = (char *)"an id";
    r->message.inputs = r->inputs;
    r->message.n_inputs = 1;
    r->message.raw_input_contents = r->raw;
    r->message.n_raw_input_contents = 1;
}

/* The same tensor in the message's own fields. */
static void use_fields(struct request *r)
{
    inference__infer_tensor_contents__init(&r->contents);
    r->contents.fp32_contents = r->x;
    r->contents.n_fp32_contents = N;
    r->input.contents = &r->contents;
    r->message.n_raw_input_contents = 0;
}

static void set_parameter(struct request *r, const char *key, int64_t value)
{
    inference__infer_parameter__init(&r->parameter);
    inference__model_infer_request__parameters_entry__init(&r->set);
    r->parameter.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    r->parameter.int64_param = value;
    r->set.key = (char *)key;
    r->set.value = &r->parameter;
    r->sets[0] = &r->set;
    r->message.parameters = r->sets;
    r->message.n_parameters = 1;
}

static void check_response(const Inference__ModelInferResponse *m, const struct request *r)
{
    assert_non_null(m);
    assert_string_equal(m->model_name, "echo");
    assert_string_equal(m->model_version, "1");
    assert_string_equal(m->id, r->message.id);
    assert_int_equal(m->n_outputs, 1);
    assert_string_equal(m->outputs[0]->name, "y");
    assert_string_equal(m->outputs[0]->datatype, "FP32");
    assert_int_equal(m->outputs[0]->n_shape, 2);
    assert_int_equal(m->outputs[0]->shape[1], N);
    assert_int_equal(m->n_raw_output_contents, 1);
    assert_int_equal(m->raw_output_contents[0].len, BYTES);
    assert_memory_equal(m->raw_output_contents[0].data, r->x, BYTES);
}

static void check_echo(struct answer *a, const struct request *r)
{
    assert_string_equal(a->why, "");
    assert_int_equal(a->status, GW_GRPC_OK);
    Inference__ModelInferResponse *m = inference__model_infer_response__unpack(NULL, a->size, a->bytes);
    check_response(m, r);
    inference__model_infer_response__free_unpacked(m, NULL);
    answer_free(a);
}

static void check_refused(struct answer a, int status, const char *why)
{
    if (!strstr(a.why, why)) print_error("it says: %s\n", a.why);
    assert_non_null(strstr(a.why, why));
    assert_int_equal(a.status, status);
    assert_null(a.bytes);
    answer_free(&a);
}

static struct answer infer(const struct request *r)
{
    return ask(SERVICE("ModelInfer"), &r->message.base);
}

static void check_still_serves(void)
{
    struct request r;
    fill(&r, 3);
    struct answer a = infer(&r);
    check_echo(&a, &r);
}

/* ---- tests ---- */

static void test_infer(void **state)
{
    struct request r;
    (void)state;
    for (int i = 0; i < 50; i++) {
        fill(&r, (float)i);
        if (i & 1) use_fields(&r);
        if (i % 3 == 0) set_parameter(&r, "priority", 1);
        if (i % 3 == 1) set_parameter(&r, "timeout", 10000000);
        if (i % 3 == 2) set_parameter(&r, "of_somebody_else", 1);
        if (i % 5 == 0) {
            inference__model_infer_request__infer_requested_output_tensor__init(&r.output);
            r.output.name = (char *)"y";
            r.outputs[0] = &r.output;
            r.message.outputs = r.outputs;
            r.message.n_outputs = 1;
        }
        struct answer a = infer(&r);
        check_echo(&a, &r);
    }
}

static void test_refused(void **state)
{
    struct request r;
    (void)state;
    fill(&r, 0);
    r.message.model_name = (char *)"nothing";
    check_refused(infer(&r), GW_GRPC_NOT_FOUND, "'nothing'");
    fill(&r, 0);
    r.message.model_version = (char *)"7";
    check_refused(infer(&r), GW_GRPC_NOT_FOUND, "version 7");
    fill(&r, 0);
    r.input.name = (char *)"z";
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "z");
    fill(&r, 0);
    r.input.datatype = (char *)"BYTES";
    check_refused(infer(&r), GW_GRPC_UNIMPLEMENTED, "BYTES");
    fill(&r, 0);
    r.shape[1] = N + 1;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "65");
    fill(&r, 0);
    r.input.n_shape = 0;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "shape");
    fill(&r, 0);
    r.raw[0].len = BYTES - 4;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "unexpected byte size 252, expected 256");
    fill(&r, 0);
    r.message.n_raw_input_contents = 0;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "has no data");
    fill(&r, 0);
    r.message.n_raw_input_contents = 2;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "raw_input_contents has 2");
    fill(&r, 0);
    use_fields(&r);
    r.message.n_raw_input_contents = 1;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "must not be specified when using raw_input_contents");
    fill(&r, 0);
    use_fields(&r);
    r.contents.n_fp32_contents = N - 1;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "unexpected element count 63, expected 64");
    fill(&r, 0);
    r.message.n_inputs = 2;
    r.message.n_raw_input_contents = 2;
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "input");
    fill(&r, 0);
    set_parameter(&r, "timeout", -1);
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "'timeout'");
    check_still_serves();
}

/* Messages cut short, and bytes that are none; each must be answered. */
static void test_broken_messages(void **state)
{
    struct request r;
    uint8_t bytes[1024];
    (void)state;
    fill(&r, 1);
    size_t size = inference__model_infer_request__pack(&r.message, bytes);
    for (size_t n = 1; n < size; n += n < 64 ? 1 : 17) {
        struct ask q = {.method = SERVICE("ModelInfer"), .bytes = bytes, .size = n};
        struct answer a = client_ask(&client, &q);
        assert_int_not_equal(a.status, GW_GRPC_OK);
        assert_int_not_equal(a.status, GW_GRPC_UNAVAILABLE);
        answer_free(&a);
    }
    memset(bytes, 0xff, sizeof(bytes));
    static const char *const methods[] = {SERVICE("ModelInfer"), SERVICE("ModelReady"),
                                          SERVICE("ModelConfig"), SERVICE("SystemSharedMemoryRegister"),
                                          "/grpc.health.v1.Health/Check"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        struct ask q = {.method = methods[i], .bytes = bytes, .size = sizeof(bytes)};
        check_refused(client_ask(&client, &q), GW_GRPC_INVALID_ARGUMENT, "not a valid");
    }
    check_still_serves();
}

static void test_too_large(void **state)
{
    size_t size = (4 << 20) + 1; /* the worker was started with a limit of 4 MiB */
    void *bytes = calloc(1, size);
    (void)state;
    struct ask q = {.method = SERVICE("ModelInfer"), .bytes = bytes, .size = size};
    check_refused(client_ask(&client, &q), GW_GRPC_RESOURCE_EXHAUSTED, "");
    free(bytes);
    check_still_serves();
}

static void test_unknown_methods(void **state)
{
    static const char *const unknown[] = {SERVICE("Nothing"), "/", "/a/b", "//",
                                          "/inference.GRPCInferenceService"};
    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        struct ask q = {.method = unknown[i]};
        check_refused(client_ask(&client, &q), GW_GRPC_UNIMPLEMENTED, "no such method");
    }
    struct ask log = {.method = SERVICE("LogSettings")};
    check_refused(client_ask(&client, &log), GW_GRPC_UNIMPLEMENTED, "does not support");
}

static void test_health(void **state)
{
    Grpc__Health__V1__HealthCheckRequest q = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    (void)state;
    struct answer a = ask("/grpc.health.v1.Health/Check", &q.base);
    Grpc__Health__V1__HealthCheckResponse *r =
        grpc__health__v1__health_check_response__unpack(NULL, a.size, a.bytes);
    assert_non_null(r);
    assert_int_equal(r->status, GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING);
    grpc__health__v1__health_check_response__free_unpacked(r, NULL);
    answer_free(&a);
    q.service = (char *)"another.Service";
    check_refused(ask("/grpc.health.v1.Health/Check", &q.base), GW_GRPC_NOT_FOUND, "no such service");
}

static void test_models(void **state)
{
    Inference__ModelConfigRequest q = INFERENCE__MODEL_CONFIG_REQUEST__INIT;
    (void)state;
    q.name = (char *)"sum";
    struct answer a = ask(SERVICE("ModelConfig"), &q.base);
    Inference__ModelConfigResponse *c = inference__model_config_response__unpack(NULL, a.size, a.bytes);
    assert_non_null(c);
    assert_string_equal(c->config->name, "sum");
    assert_int_equal(c->config->n_input, 2);
    assert_string_equal(c->config->input[1]->name, "b");
    assert_int_equal(c->config->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
    inference__model_config_response__free_unpacked(c, NULL);
    answer_free(&a);
    a = ask(SERVICE("ModelMetadata"), &q.base); /* its request has the same two fields */
    Inference__ModelMetadataResponse *m = inference__model_metadata_response__unpack(NULL, a.size, a.bytes);
    assert_non_null(m);
    assert_int_equal(m->n_inputs, 2);
    assert_string_equal(m->outputs[0]->datatype, "FP32");
    inference__model_metadata_response__free_unpacked(m, NULL);
    answer_free(&a);
    q.name = (char *)"nothing";
    check_refused(ask(SERVICE("ModelConfig"), &q.base), GW_GRPC_NOT_FOUND, "'nothing'");
}

/* More requests at once than a stream may have under way: each is answered, in order, the wrong ones too. */
static void test_stream(void **state)
{
    enum { COUNT = 40 };
    struct stream s;
    struct request r;
    uint8_t bytes[1024];
    char id[16];
    (void)state;
    stream_open(&client, SERVICE("ModelStreamInfer"), &s);
    for (int i = 0; i < COUNT; i++) {
        fill(&r, (float)i);
        snprintf(id, sizeof(id), "%d", i);
        r.message.id = id;
        if (i % 7 == 3) r.message.model_name = (char *)"nothing";
        size_t size = inference__model_infer_request__pack(&r.message, bytes);
        assert_int_equal(stream_send(&s, bytes, size), 0);
    }
    stream_end_of_input(&s);
    for (int i = 0; i < COUNT; i++) {
        struct answer a = stream_receive(&s);
        Inference__ModelStreamInferResponse *m =
            inference__model_stream_infer_response__unpack(NULL, a.size, a.bytes);
        assert_non_null(m);
        snprintf(id, sizeof(id), "%d", i);
        fill(&r, (float)i);
        r.message.id = id;
        assert_string_equal(m->infer_response->id, id);
        if (i % 7 == 3)
            assert_non_null(strstr(m->error_message, "'nothing'"));
        else
            check_response(m->infer_response, &r);
        inference__model_stream_infer_response__free_unpacked(m, NULL);
        answer_free(&a);
    }
    assert_null(stream_receive(&s).bytes);
    assert_int_equal(stream_close(&s), GW_GRPC_OK);
}

/* Clients that go in the middle of their calls take nothing with them. */
static void test_cancelled(void **state)
{
    struct request r;
    uint8_t bytes[1024];
    (void)state;
    fill(&r, 5);
    size_t size = inference__model_infer_request__pack(&r.message, bytes);
    for (int i = 0; i < 60; i++) {
        struct client other;
        struct stream s;
        client_open(&other, worker.grpc);
        stream_open(&other, SERVICE("ModelStreamInfer"), &s);
        for (int k = 0; k < i % 12; k++) stream_send(&s, bytes, size);
        stream_cancel(&s);
        client_close(&other);
    }
    check_still_serves();
}

/* One that waits for a place when its client goes is not computed any more. */
static void test_cancelled_before_it_began(void **state)
{
    const char *const options[] = {"--slots", "1", NULL};
    const struct timespec noticed = {.tv_sec = 2}; /* the server looks every tenth of a second */
    struct worker_process small;
    struct client other;
    struct stream s;
    struct request r;
    uint8_t bytes[1024];
    int held[2];
    (void)state;
    assert_int_equal(worker_start(&small, "tests/server/models", options), 0);
    client_open(&other, small.grpc);
    for (int i = 0; i < 2; i++) assert_true((held[i] = hold_begin(small.server)) >= 0);
    fill(&r, 5);
    set_parameter(&r, "timeout", 20000);
    struct ask q = {.method = SERVICE("ModelInfer"),
                    .bytes = bytes,
                    .size = inference__model_infer_request__pack(&r.message, bytes)};
    struct answer a = client_ask(&other, &q);
    int before = 0;
    for (; a.status == GW_GRPC_OK; before++) { /* until both places are taken */
        answer_free(&a);
        a = client_ask(&other, &q);
    }
    assert_string_equal(a.why, "Request timeout expired");
    answer_free(&a);
    fill(&r, 5);
    q.size = inference__model_infer_request__pack(&r.message, bytes);
    stream_open(&other, SERVICE("ModelStreamInfer"), &s);
    assert_int_equal(stream_send(&s, bytes, q.size), 0);
    nanosleep(&noticed, NULL); /* it waits by now */
    stream_cancel(&s);
    nanosleep(&noticed, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(hold_end(held[i]), 0);
    a = client_ask(&other, &q);
    check_echo(&a, &r);
    client_close(&other);
    assert_int_equal(worker_stat(&small, "echo", "answered"), before + 3);
    assert_int_equal(worker_stop(&small), 0);
}

/* The time that the caller gives is the request's: one that cannot be met is not computed. */
static void test_deadline(void **state)
{
    struct request r;
    uint8_t bytes[1024];
    (void)state;
    fill(&r, 5);
    struct ask q = {.method = SERVICE("ModelInfer"),
                    .bytes = bytes,
                    .size = inference__model_infer_request__pack(&r.message, bytes),
                    .timeout_ms = 1};
    for (int i = 0; i < 20; i++) {
        struct answer a = client_ask(&client, &q);
        assert_true(a.status == GW_GRPC_OK || a.status == GW_GRPC_DEADLINE_EXCEEDED ||
                    a.status == GW_GRPC_UNAVAILABLE);
        answer_free(&a);
    }
    set_parameter(&r, "timeout", 1); /* a microsecond: some may come back in time */
    q.size = inference__model_infer_request__pack(&r.message, bytes);
    q.timeout_ms = 0;
    int late = 0;
    for (int i = 0; i < 20; i++) {
        struct answer a = client_ask(&client, &q);
        late += a.status == GW_GRPC_UNAVAILABLE;
        assert_true(a.status == GW_GRPC_UNAVAILABLE || a.status == GW_GRPC_OK);
        answer_free(&a);
    }
    assert_true(late > 0);
    check_still_serves();
}

/* ---- shared memory ---- */

static void set_text(struct request *r, int i, const char *key, const char *text, int64_t number)
{
    inference__infer_parameter__init(&r->value[i]);
    inference__model_infer_request__infer_input_tensor__parameters_entry__init(&r->entry[i]);
    if (text) {
        r->value[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
        r->value[i].string_param = (char *)text;
    } else {
        r->value[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
        r->value[i].int64_param = number;
    }
    r->entry[i].key = (char *)key;
    r->entry[i].value = &r->value[i];
    r->entries[i] = &r->entry[i];
    r->input.parameters = r->entries;
    if (r->input.n_parameters <= (size_t)i) r->input.n_parameters = (size_t)i + 1;
}

static void test_shared_memory(void **state)
{
    char key[32];
    struct request r;
    (void)state;
    snprintf(key, sizeof(key), "/gw-test-grpc-%d", (int)getpid());
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && !ftruncate(fd, 4096));
    fill(&r, 9);
    assert_int_equal(pwrite(fd, r.x, BYTES, 128), BYTES);

    Inference__SystemSharedMemoryRegisterRequest reg = INFERENCE__SYSTEM_SHARED_MEMORY_REGISTER_REQUEST__INIT;
    reg.name = (char *)"in";
    reg.key = key;
    reg.byte_size = 4096;
    struct answer a = ask(SERVICE("SystemSharedMemoryRegister"), &reg.base);
    assert_int_equal(a.status, GW_GRPC_OK);
    answer_free(&a);
    check_refused(ask(SERVICE("SystemSharedMemoryRegister"), &reg.base), GW_GRPC_ALREADY_EXISTS, "'in'");
    shm_unlink(key);
    close(fd);

    Inference__SystemSharedMemoryStatusRequest all = INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_REQUEST__INIT;
    a = ask(SERVICE("SystemSharedMemoryStatus"), &all.base);
    Inference__SystemSharedMemoryStatusResponse *list =
        inference__system_shared_memory_status_response__unpack(NULL, a.size, a.bytes);
    assert_int_equal(list->n_regions, 1);
    assert_string_equal(list->regions[0]->key, "in");
    assert_int_equal(list->regions[0]->value->byte_size, 4096);
    inference__system_shared_memory_status_response__free_unpacked(list, NULL);
    answer_free(&a);

    set_text(&r, 0, "shared_memory_region", "in", 0);
    set_text(&r, 1, "shared_memory_offset", NULL, 128);
    set_text(&r, 2, "shared_memory_byte_size", NULL, BYTES);
    r.message.n_raw_input_contents = 0;
    a = infer(&r);
    check_echo(&a, &r);
    set_text(&r, 1, "shared_memory_offset", NULL, 4000);
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "beyond");
    Inference__SystemSharedMemoryUnregisterRequest gone =
        INFERENCE__SYSTEM_SHARED_MEMORY_UNREGISTER_REQUEST__INIT;
    a = ask(SERVICE("SystemSharedMemoryUnregister"), &gone.base);
    assert_int_equal(a.status, GW_GRPC_OK);
    answer_free(&a);
    set_text(&r, 1, "shared_memory_offset", NULL, 128);
    check_refused(infer(&r), GW_GRPC_INVALID_ARGUMENT, "'in'");
}

/* ---- */

static int begin(void **state)
{
    static const char *const options[] = {"--max-body", "4", NULL};
    (void)state;
    if (worker_start(&worker, "tests/server/models", options)) return -1;
    client_open(&client, worker.grpc);
    return 0;
}

/* It ends while a stream is open, whose client is told. */
static int end(void **state)
{
    struct stream s;
    struct request r;
    uint8_t bytes[1024];
    (void)state;
    fill(&r, 5);
    stream_open(&client, SERVICE("ModelStreamInfer"), &s);
    stream_send(&s, bytes, inference__model_infer_request__pack(&r.message, bytes));
    struct answer a = stream_receive(&s);
    answer_free(&a);
    int code = worker_stop(&worker), status = stream_close(&s);
    client_close(&client);
    return code || status == GW_GRPC_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infer),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_broken_messages), cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_unknown_methods), cmocka_unit_test(test_health),
        cmocka_unit_test(test_models),          cmocka_unit_test(test_stream),
        cmocka_unit_test(test_cancelled),       cmocka_unit_test(test_cancelled_before_it_began),
        cmocka_unit_test(test_deadline),        cmocka_unit_test(test_shared_memory),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
