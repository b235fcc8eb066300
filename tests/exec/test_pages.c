/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for NICs and GPUs is whole pages, of whatever size the host's are: else two pieces would be pinned by one page.
 * (scripts/aarch64.sh runs this where pages have 64 KiB.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/exec.h>

static void memory_is_whole_pages(void **state)
{
    static const size_t sizes[] = {1, 4096, 65536, 65537, 3u << 20};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct gw_exec *exec;

    (void)state;
    assert_int_equal(gw_exec_create("cpu", NULL, &exec), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct gw_mem mem;

        assert_int_equal(gw_mem_alloc(exec, GW_MEM_HOST, sizes[i], &mem), 0);
        assert_int_equal((uintptr_t)mem.host % page, 0);
        assert_int_equal(mem.size % page, 0);
        assert_true(mem.size >= sizes[i]);
        gw_mem_free(&mem);
    }
    assert_int_equal(gw_exec_destroy(exec), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_whole_pages)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
