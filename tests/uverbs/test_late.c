/* SPDX-License-Identifier: Apache-2.0 */
/* Installed after the program has used libibverbs, and in a child that its parent's use did not reach. */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_after_first_use(void **state)
{
    (void)state;
    struct rig r;
    struct ibv_device **list = ibv_get_device_list(NULL); /* libibverbs has read the real /sys now */

    if (list) ibv_free_device_list(list);
    rig_up(&r);
    rig_down(&r);
}

/* Opened by the child alone: it gets a device and files of its own, and the parent's stay. */
static void test_child_opens(void **state)
{
    (void)state;
    int status;

    assert_int_equal(softnic_install(), 0);
    pid_t pid = fork();
    if (!pid) {
        struct rig r;
        alarm(RIG_WAIT_S);
        rig_up(&r);
        rig_down(&r);
        _exit(softnic_uninstall() ? 2 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct rig r;
    rig_up(&r);
    rig_down(&r);
}

/* After uninstalling the libraries are as they were; installing again works. */
static void test_again(void **state)
{
    (void)state;
    assert_int_equal(softnic_install(), 0);
    for (int i = 0; i < 3; i++) {
        int n = 0;
        assert_int_equal(softnic_uninstall(), 0);
        struct ibv_device **list = ibv_get_device_list(&n);
        for (int d = 0; list && d < n; d++) assert_null(strstr(list[d]->ibdev_path, "gpuwire"));
        if (list) ibv_free_device_list(list);
        struct rig r;
        rig_up(&r);
        rig_down(&r);
    }
    assert_int_equal(softnic_uninstall(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_first_use),
        cmocka_unit_test(test_child_opens),
        cmocka_unit_test(test_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
