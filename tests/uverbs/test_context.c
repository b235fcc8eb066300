/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC is built with one rdma-core and runs with another, whose struct verbs_context is longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "softnic/uverbs/uverbs.h"

enum { FRONT = offsetof(struct verbs_context, sz) / sizeof(void *), ROOM = 300 };

/* As a libibverbs makes it whose struct has `front` words before its size; a provider's own follow. */
static void *make(size_t front, struct ibv_context **context)
{
    char *p = malloc(ROOM * sizeof(void *) + sizeof(**context));
    size_t size = (front + 1) * sizeof(void *) + sizeof(**context);

    assert_non_null(p);
    memset(p, 0x5a, ROOM * sizeof(void *) + sizeof(**context));
    memcpy(p + front * sizeof(void *), &size, sizeof(size));
    *context = (struct ibv_context *)(void *)(p + (front + 1) * sizeof(void *));
    (*context)->abi_compat = __VERBS_ABI_IS_EXTENDED;
    return p;
}

static void contexts_of_all_releases_are_found(void **state)
{
    struct ibv_context *context;

    (void)state;
    assert_int_equal(sizeof(struct verbs_context), (FRONT + 1) * sizeof(void *) + sizeof(*context));
    for (size_t front = FRONT - 20; front < FRONT + 40; front++) {
        void *p = make(front, &context);

        assert_ptr_equal(uv_context_in(p), context);
        free(p);
    }
}

static void a_number_like_a_size_is_no_context(void **state)
{
    struct ibv_context *context;
    char *p = make(FRONT + 3, &context);
    size_t size = 8 * sizeof(void *) + sizeof(*context);

    (void)state;
    memcpy(p + 7 * sizeof(void *), &size, sizeof(size));
    assert_ptr_equal(uv_context_in(p), context);
    context->abi_compat = NULL; /* of a release that has no struct verbs_context */
    assert_null(uv_context_in(p));
    free(p);
}

/* rdma-core 65 asks for regions by a method of its own. Only told so does it ask in the older way. */
static void a_newer_way_to_register_is_not_known(void **state)
{
    struct ib_uverbs_ioctl_hdr hdr = {.length = sizeof(hdr), .object_id = UVERBS_OBJECT_MR, .method_id = 5};
    int fd = uv_open(O_RDWR | O_CLOEXEC, 0);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(uv_ioctl(fd, RDMA_VERBS_IOCTL, (uintptr_t)&hdr), -EPROTONOSUPPORT);
    uv_close(fd);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contexts_of_all_releases_are_found),
                                       cmocka_unit_test(a_number_like_a_size_is_no_context),
                                       cmocka_unit_test(a_newer_way_to_register_is_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
