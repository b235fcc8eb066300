/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering GPU memory, with a GPU and a CUDA driver made of host memory (tests/exec/fake_gpu.c): the way
 * that is taken, the message when none works, and the refusal of managed memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

static struct gw_exec *exec;

struct one {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_mem mem;
};

static void make(struct one *o, const char *faults)
{
    setenv("FAKE_CUDA", faults, 1);
    if (gw_device_open("softnic", exec, &o->dev)) fail_msg("%s", gw_last_error());
    assert_int_equal(gw_pd_create(o->dev, &o->pd), 0);
    assert_int_equal(gw_mem_alloc(exec, GW_MEM_DEVICE, 65536, &o->mem), 0);
}

static void done(struct one *o)
{
    gw_mem_free(&o->mem);
    assert_int_equal(gw_pd_destroy(o->pd), 0);
    assert_int_equal(gw_device_close(o->dev), 0);
    unsetenv("FAKE_CUDA");
}

/* Registers, and says which way was taken. */
static void reached(const char *faults, uint32_t reach)
{
    struct gw_device_info info;
    struct gw_mr *mr;
    struct one o;

    make(&o, faults);
    gw_device_query(o.dev, &info);
    assert_int_equal(info.gpu_reach, reach);
    if (gw_mr_register(o.pd, o.mem.dev, o.mem.size, 0, &mr)) fail_msg("%s", gw_last_error());
    assert_int_equal(mr->reach, reach);
    assert_int_equal(gw_mr_free(mr), 0);
    done(&o);
}

static void ways(void **state)
{
    (void)state;
    reached("", GW_REACH_DIRECT);
    reached("opaque", GW_REACH_DMABUF);
}

/* ---- on a thread that CUDA knows nothing of ------------------------------------------------------------ */

typedef int (*set_fn)(void *context);
typedef int (*get_fn)(void **context);
typedef int (*retain_fn)(void **context, int device);

static void *driver(const char *name)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *f = lib ? dlsym(lib, name) : NULL;

    assert_non_null(f);
    return f;
}

static void *current(void)
{
    void *context = NULL;

    assert_int_equal(((get_fn)driver("cuCtxGetCurrent"))(&context), 0);
    return context;
}

static void *registers(void *arg)
{
    struct one *o = arg;
    void *other = NULL;
    struct gw_mr *mr;

    assert_null(current());
    if (gw_mr_register(o->pd, o->mem.dev, o->mem.size, 0, &mr)) return strdup(gw_last_error());
    assert_int_equal(mr->reach, GW_REACH_DMABUF);
    assert_null(current());
    assert_int_equal(gw_mr_free(mr), 0);
    /* One that the thread has keeps its place. */
    assert_int_equal(((retain_fn)driver("cuDevicePrimaryCtxRetain"))(&other, 1), 0);
    assert_int_equal(((set_fn)driver("cuCtxSetCurrent"))(other), 0);
    if (gw_mr_register(o->pd, o->mem.dev, o->mem.size, 0, &mr)) return strdup(gw_last_error());
    assert_ptr_equal(current(), other);
    assert_int_equal(gw_mr_free(mr), 0);
    return NULL;
}

static void without_context(void **state)
{
    void *said = NULL;
    pthread_t thread;
    struct one o;

    (void)state;
    make(&o, "opaque");
    assert_int_equal(pthread_create(&thread, NULL, registers, &o), 0);
    assert_int_equal(pthread_join(thread, &said), 0);
    if (said) fail_msg("%s", (char *)said);
    done(&o);
}

/* A device for CPU threads, in a process that uses a GPU all the same. */
static void for_cpu_threads(void **state)
{
    struct gw_exec *cpu;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_mr *mr;
    struct one o;

    (void)state;
    make(&o, "opaque");
    assert_int_equal(gw_exec_create("cpu", NULL, &cpu), 0);
    assert_int_equal(gw_device_open("softnic", cpu, &dev), 0);
    assert_int_equal(gw_pd_create(dev, &pd), 0);
    if (gw_mr_register(pd, o.mem.dev, o.mem.size, 0, &mr)) fail_msg("%s", gw_last_error());
    assert_int_equal(mr->reach, GW_REACH_DMABUF);
    assert_int_equal(gw_mr_free(mr), 0);
    assert_int_equal(gw_mr_register(pd, &o, sizeof(o), 0, &mr), 0);
    assert_int_equal(mr->reach, GW_REACH_HOST);
    assert_int_equal(gw_mr_free(mr), 0);
    assert_int_equal(gw_pd_destroy(pd), 0);
    assert_int_equal(gw_device_close(dev), 0);
    assert_int_equal(gw_exec_destroy(cpu), 0);
    done(&o);
}

/* Registering's messages for all that can be wrong. */
static void refused(struct one *o, void *at, size_t n, const char *const *words)
{
    struct gw_mr *mr = (struct gw_mr *)o;

    assert_int_equal(gw_mr_register(o->pd, at, n, 0, &mr), -EOPNOTSUPP);
    assert_null(mr);
    for (; *words; words++)
        if (!strstr(gw_last_error(), *words)) fail_msg("'%s' is not in: %s", *words, gw_last_error());
}

static void no_way(void **state)
{
    static const char *const words[] = {"cannot reach GPU memory", "dma-buf: CUDA error 801", "by address",
                                        NULL};
    struct gw_device_info info;
    struct gw_mr *mr;
    struct one o;

    (void)state;
    make(&o, "opaque,no_dmabuf");
    gw_device_query(o.dev, &info);
    assert_int_equal(info.gpu_reach, GW_REACH_NONE);
    assert_non_null(strstr(info.gpu_why, "open kernel modules"));
    refused(&o, o.mem.dev, o.mem.size, words);
    gw_mem_free(&o.mem);
    /* The way out: mapped host memory. */
    assert_int_equal(gw_mem_alloc(exec, GW_MEM_HOST, 65536, &o.mem), 0);
    assert_int_equal(gw_mr_register(o.pd, o.mem.host, o.mem.size, 0, &mr), 0);
    assert_int_equal(mr->reach, GW_REACH_HOST);
    assert_int_equal(gw_mr_free(mr), 0);
    done(&o);
}

static void managed(void **state)
{
    static const char *const words[] = {"managed memory", "cudaMallocManaged", "use gw_mem_alloc", NULL};
    struct one o;

    (void)state;
    make(&o, "");
    setenv("FAKE_CUDA", "managed", 1);
    refused(&o, o.mem.dev, o.mem.size, words);
    refused(&o, (uint8_t *)o.mem.dev + 100, 7, words);
    setenv("FAKE_CUDA", "managed,opaque", 1); /* whatever else it is */
    refused(&o, o.mem.dev, o.mem.size, words);
    done(&o);
}

static int open_exec(void **state)
{
    (void)state;
    return gw_exec_create("gpu", NULL, &exec);
}

static int close_exec(void **state)
{
    (void)state;
    return gw_exec_destroy(exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ways), cmocka_unit_test(without_context),
                                       cmocka_unit_test(for_cpu_threads), cmocka_unit_test(no_way),
                                       cmocka_unit_test(managed)};

    setenv("GPUWIRE_NIC", "addr=127.0.0.1", 0);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
