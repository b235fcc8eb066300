/* SPDX-License-Identifier: Apache-2.0 */
/* How far a NIC is from a GPU: places in a PCI tree, as /sys of a server with two sockets shows them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/verbs/near.h"

#define TREE "/sys/devices/pci"
static const struct gw_place_in_pci gpu = {TREE "0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0",
                                           0};

static uint32_t to(const char *path, int node)
{
    struct gw_place_in_pci nic = {.node = node};

    snprintf(nic.path, sizeof(nic.path), "%s", path);
    assert_int_equal(gw_pci_distance(&gpu, &nic), gw_pci_distance(&nic, &gpu));
    return gw_pci_distance(&gpu, &nic);
}

static void nearer_ones_come_first(void **state)
{
    static const struct {
        const char *path;
        int node;
        const char *text;
    } at[] = {
        {TREE "0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", 0,
         "behind the same PCIe bridge"},
        {TREE "0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0", 0,
         "behind the same PCIe bridge"},
        {TREE "0000:15/0000:15:02.0/0000:20:00.0", 0, "at the same root complex"},
        {TREE "0000:26/0000:26:01.0/0000:27:00.0", 0, "at the same NUMA node"},
        {TREE "0000:97/0000:97:01.0/0000:98:00.0", 1, "at another NUMA node"},
        {TREE "0000:97/0000:97:01.0/0000:98:00.0/0000:99:00.0/0000:9a:00.0", 1, "at another NUMA node"},
    };
    uint32_t last = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        uint32_t d = to(at[i].path, at[i].node);

        assert_string_equal(gw_pci_distance_text(d), at[i].text);
        assert_true(d > last);
        last = d;
    }
}

/* Names that begin alike are not one place. */
static void whole_names_are_compared(void **state)
{
    (void)state;
    assert_string_equal(gw_pci_distance_text(to(TREE "0000:1/0000:15:01.0/0000:16:00.0", 0)),
                        "at the same NUMA node");
    assert_string_equal(gw_pci_distance_text(to(TREE "0000:15/0000:15:01/0000:16:00.0", 0)),
                        "at the same root complex");
    assert_string_equal(gw_pci_distance_text(to("", 0)), "at the same NUMA node");
}

static void what_is_not_there(void **state)
{
    struct gw_place_in_pci at;

    (void)state;
    assert_false(gw_pci_find("/sys/no/such/folder", &at));
    assert_true(gw_pci_find("/sys/class", &at));
    assert_int_equal(at.node, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearer_ones_come_first),
        cmocka_unit_test(whole_names_are_compared),
        cmocka_unit_test(what_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
