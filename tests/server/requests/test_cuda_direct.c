/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests whose tensors lie in CUDA shared memory: they go from there into the worker's slot, and back,
 * without the host.
 *
 *     test_infer_cuda_direct [--exec cpu|gpu]
 *
 * On CPU threads the driver is a fake one. Its GPU is host memory, and the worker's slots become a part of
 * it. Exit code 77: there is no driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/server/requests/infer.h"
#include "src/server/requests/local.h"
#include "tests/server/requests/owner.h"
#include "tests/model/pack.h"
#include "tests/server/worker_rig.h"

enum {
    SIDE = 224,
    FLOATS = SIDE * SIDE,
    TENSOR = FLOATS * sizeof(float),
    IN = 256,
    OUT = 1 << 18,
    BYTES = 1 << 19
};

static struct gw_infer *infer;
static struct gw_infer_local local;
static char me[32];

/* How many copies the host had no part in; -1: the driver does not tell. */
static int direct(void)
{
    int (*count)(void);
    return driver("fake_cuda_direct", &count) ? -1 : count();
}

/* ---- the owner of the memory: another process, which fills it as it is told, and says what is there ---- */

/* Through a pipe, all BYTES of it. */
static int all(int fd, uint8_t *bytes, int out)
{
    ssize_t n = 1;
    for (size_t done = 0; n > 0 && done<BYTES; done += n> 0 ? (size_t)n : 0)
        n = out ? write(fd, bytes + done, BYTES - done) : read(fd, bytes + done, BYTES - done);
    return n > 0;
}

static int own(int in, int out)
{
    static uint8_t bytes[BYTES];
    int (*alloc)(unsigned long long *, size_t), (*get)(void *, unsigned long long),
        (*put)(unsigned long long, const void *, size_t), (*take)(void *, unsigned long long, size_t);
    unsigned long long at = 0;
    uint8_t name[GW_CUDA_HANDLE];
    if (use_gpu() || driver("cuMemAlloc_v2", &alloc) || driver("cuIpcGetMemHandle", &get) ||
        driver("cuMemcpyHtoD_v2", &put) || driver("cuMemcpyDtoH_v2", &take))
        return 1;
    if (alloc(&at, BYTES) || get(name, at) || write(out, name, sizeof(name)) != sizeof(name)) return 1;
    for (char word; read(in, &word, 1) == 1;) {
        if (word == 'p' && (!all(in, bytes, 0) || put(at, bytes, BYTES))) return 1;
        if (word == 'g' && take(bytes, at, BYTES)) return 1;
        if (!all(out, bytes, 1)) return 1;
    }
    return 0;
}

static void tell(const float *in)
{
    static uint8_t bytes[BYTES];
    memset(bytes, 0x7e, sizeof(bytes));
    memcpy(bytes + IN, in, TENSOR);
    assert_int_equal(write(to_owner, "p", 1), 1);
    assert_true(all(to_owner, bytes, 1) && all(from_owner, bytes, 0));
}

/* The output, and nothing beside it, is this. */
static void expect(const float *out)
{
    static uint8_t bytes[BYTES];
    assert_int_equal(write(to_owner, "g", 1), 1);
    assert_true(all(from_owner, bytes, 0));
    assert_memory_equal(bytes + OUT, out, TENSOR);
    assert_int_equal(bytes[OUT - 1], 0x7e);
    assert_int_equal(bytes[OUT + TENSOR], 0x7e);
}

/* ---- a worker, and what asks it ---- */

/* With a GPU the slots are where its driver reaches them. */
static int adopt_slots(void)
{
    int (*adopt)(void *, size_t);
    uint8_t *in, *out;
    struct gw_call *call;
    if (!strcmp(exec_name, "gpu")) return 0;
    if (driver("fake_cuda_adopt", &adopt)) return -1;
    if (gw_call_take(gw_worker_calls(worker), me, gw_deadline(WAIT_NS), &call)) return -1;
    if (gw_call_enter_slot(call, &in, &out)) return -1;
    gw_call_leave_slot(call);
    gw_call_give(call);
    return adopt(in, TENSOR) || adopt(out, TENSOR); /* one call at a time: it is always this one */
}

static int begin(void **state)
{
    static char path[4096];
    static const size_t one = 1;
    struct gw_repository_entry entry = {.name = "identity", .version = 1, .path = path};
    (void)state;
    if (start_owner(own) || use_gpu()) return -1;
    snprintf(me, sizeof(me), "user %u", (unsigned)geteuid());
    pack_path(path, sizeof(path), 1, "identity/1/model.onnx");
    int error = begin_devices(1);
    struct gw_worker_opts opts = worker_opts();
    if (!error) error = gw_worker_create(&entry, &opts, &worker);
    struct gw_region_info info = {.name = "gpu", .bytes = BYTES};
    struct gw_infer_error why = {0};
    local = (struct gw_infer_local){.worker = &worker, .workers = &one};
    if (!error)
        error = gw_infer_create(&(struct gw_infer_opts){.backend = &gw_infer_local, .ctx = &local}, &infer);
    if (!error) error = gw_infer_register_cuda(infer, me, &info, handle, sizeof(handle), &why);
    if (!error) error = gw_worker_start(worker); /* nothing is mapped beside a resident kernel */
    if (error) print_message("%d, %s %s\n", error, gw_last_error(), why.text);
    return error;
}

static int end(void **state)
{
    (void)state;
    int error = end_worker();
    gw_infer_destroy(infer);
    return end_owner() | end_devices() | error;
}

static struct gw_infer_request request(const char *from, const char *to)
{
    const struct gw_model *m = gw_worker_model(worker);
    return (struct gw_infer_request){.model = "identity",
                                     .who = me,
                                     .inputs = 1,
                                     .outputs = 1,
                                     .input = {{.name = gw_model_input(m, 0)->name,
                                                .datatype = "FP32",
                                                .rank = 4,
                                                .dims = {1, 1, SIDE, SIDE},
                                                .region = from,
                                                .region_offset = IN,
                                                .region_bytes = TENSOR}},
                                     .output = {{.name = gw_model_output(m, 0)->name,
                                                 .region = to,
                                                 .region_offset = OUT,
                                                 .region_bytes = TENSOR}}};
}

/* Asks; then `in` is where the answer is expected. How many copies the host had no part in. */
static int ask(const char *from, const char *to, float first)
{
    struct gw_infer_error error = {0};
    struct gw_infer_request q = request(from, to);
    struct gw_infer_run *run;
    static float in[FLOATS], other[FLOATS];
    uint64_t bytes;
    int before = direct();
    for (int i = 0; i < FLOATS; i++) in[i] = first + (float)i;
    tell(from ? in : other);
    if (gw_infer_begin(infer, &q, &run, &error)) fail_msg("%s", error.text);
    float *mine = gw_infer_input(run, 0, &bytes);
    assert_int_equal(mine != NULL, from == NULL);
    if (mine) memcpy(mine, in, TENSOR);
    if (gw_infer_wait(run, &error)) fail_msg("%s", error.text);
    const struct gw_infer_output *o = gw_infer_output(run, 0);
    assert_int_equal(o->bytes, TENSOR);
    assert_int_equal(o->data != NULL, to == NULL);
    if (to)
        expect(in);
    else
        assert_memory_equal(o->data, in, TENSOR);
    gw_infer_end(run);
    return direct() - before;
}

/* ---- tests ---- */

/* On CPU threads, where no GPU reaches the slots yet. */
static void by_way_of_the_host(void **state)
{
    (void)state;
    if (!strcmp(exec_name, "gpu")) return;
    for (int i = 0; i < 20; i++) assert_int_equal(ask("gpu", "gpu", (float)(10 * i)), 0);
    assert_int_equal(adopt_slots(), 0);
}

static void from_gpu_to_gpu(void **state)
{
    (void)state;
    int fake = strcmp(exec_name, "gpu") != 0;
    for (int i = 0; i < 50; i++) assert_int_equal(ask("gpu", "gpu", (float)(100 * i)), fake ? 2 : 0);
    assert_int_equal(ask("gpu", NULL, 5), fake);
    assert_int_equal(ask(NULL, "gpu", 6), fake);
    assert_int_equal(ask(NULL, NULL, 7), 0);
}

static void wrong_sizes_and_names(void **state)
{
    struct gw_infer_error error = {0};
    struct gw_infer_run *run;
    (void)state;
    struct gw_infer_request q = request("gpu", "gpu");
    q.input[0].region_bytes = TENSOR - 4;
    assert_int_equal(gw_infer_begin(infer, &q, &run, &error), -1);
    assert_non_null(strstr(error.text, "unexpected byte size 200700, expected 200704"));
    q = request("gpu", "gpu");
    q.output[0].region_bytes = TENSOR - 4;
    assert_int_equal(gw_infer_begin(infer, &q, &run, &error), 0);
    assert_int_equal(gw_infer_wait(run, &error), -1);
    assert_non_null(strstr(error.text, "should be at least 200704 bytes"));
    gw_infer_end(run);
    q = request("gpu", "none");
    assert_int_equal(gw_infer_begin(infer, &q, &run, &error), -1);
    assert_non_null(strstr(error.text, "'none' is not registered"));
    assert_int_equal(gw_calls_taken(gw_worker_calls(worker)), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_way_of_the_host),
        cmocka_unit_test(from_gpu_to_gpu),
        cmocka_unit_test(wrong_sizes_and_names),
    };
    if (argc > 2 && !strcmp(argv[1], "--exec")) exec_name = argv[2];
    if (no_gpu()) return 77;
    return cmocka_run_group_tests(tests, begin, end);
}
