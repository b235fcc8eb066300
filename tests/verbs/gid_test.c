/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the port's GIDs and P_Keys is used, and the settings for that. The software NIC shows GIDs from
 * which nothing arrives: an empty one, a link-local one and one of RoCE v1. Others belong to a VLAN, and to
 * an interface that is down. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/if_vlan.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/verbs/cm.h"
#include "tests/verbs/side.h"

/* Kernels without VLANs are common where tests run. The library asks whether lo is one, and the answer is
 * yes. */
int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    void *arg;

    va_start(args, request);
    arg = va_arg(args, void *);
    va_end(args);
    if (request == SIOCGIFVLAN && !strcmp(((struct vlan_ioctl_args *)arg)->device1, "lo")) return 0;
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

enum { ZERO, LINK_LOCAL, V1, OF_VLAN, OF_DOWN, OWN, GIDS };
#define OWN_ADDRESS "127.77.0.1"

static bool has_down; /* an interface that is down could be made */

static struct gw_device_info open_with(struct side *s, const char *name, const char *value)
{
    struct gw_device_info info;

    if (name) setenv(name, value, 1);
    if (open_side(s, "softnic")) fail_msg("%s=%s", name ? name : "", value ? value : "");
    if (name) unsetenv(name);
    gw_device_query(s->dev, &info);
    return info;
}

static void works_from(const char *index, uint32_t want)
{
    struct side s;
    struct gw_device_info info = open_with(&s, index ? "GPUWIRE_GID_INDEX" : NULL, index);

    assert_int_equal(info.gid_index, want);
    assert_int_equal(join_sides(&s, &s, NULL), 0);
    assert_int_equal(one_puts(&s, &s, "hello"), 0);
    assert_int_equal(close_side(&s), 0);
}

static void the_one_that_works_is_chosen(void **state)
{
    struct gw_device_info info;
    struct side s;

    (void)state;
    works_from(NULL, OWN);
    info = open_with(&s, NULL, NULL);
    assert_non_null(strstr(info.gid_why, "3: lo is a VLAN"));
    if (has_down) assert_non_null(strstr(info.gid_why, "4: gwdown0 is down"));
    assert_int_equal(close_side(&s), 0);
}

/* A program that asks for one gets it. What is sent from it does not arrive. */
static void another_one_can_be_asked_for(void **state)
{
    const struct gw_connect_opts soon = {.timeout = 10, .retry_cnt = 1};
    struct gw_device_info info;
    struct side s;

    (void)state;
    works_from("5", OWN);
    works_from("0x5", OWN);
    info = open_with(&s, "GPUWIRE_GID_INDEX", "3");
    assert_int_equal(info.gid_index, OF_VLAN);
    assert_int_equal(join_sides(&s, &s, &soon), 0);
    assert_int_equal(put_and_wait_at(&s, s.mr->addr, s.mr->rkey, 8, IBV_WC_RETRY_EXC_ERR), 0);
    assert_int_equal(close_side(&s), 0);
}

static void refused(const char *name, const char *value, const char *words)
{
    struct gw_device *dev;

    setenv(name, value, 1);
    assert_int_equal(gw_device_open("softnic", NULL, &dev), -EINVAL);
    unsetenv(name);
    if (!strstr(gw_last_error(), words) || !strstr(gw_last_error(), name))
        fail_msg("%s=%s: %s", name, value, gw_last_error());
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    refused("GPUWIRE_GID_INDEX", "0", "no such GID"); /* it is empty */
    refused("GPUWIRE_GID_INDEX", "6", "1 (RoCE v2, fe80::5), 2 (RoCE v1, 10.93.0.1)");
    refused("GPUWIRE_GID_INDEX", "6", "5 (RoCE v2, " OWN_ADDRESS ")");
    refused("GPUWIRE_GID_INDEX", "256", "from 0 to 255");
    refused("GPUWIRE_GID_INDEX", "-1", "from 0 to 255");
    refused("GPUWIRE_GID_INDEX", "3 ", "from 0 to 255");
    refused("GPUWIRE_PKEY", "0x8124", "0xffff, 0x8123");
    refused("GPUWIRE_PKEY", "0", "from 1 to 65535");
    refused("GPUWIRE_SL", "16", "from 0 to 15");
    refused("GPUWIRE_SL", "8", "0 to 7");
    refused("GPUWIRE_TC", "256", "from 0 to 255");
    refused("GPUWIRE_TIMEOUT", "0", "from 1 to 31");
    refused("GPUWIRE_TIMEOUT", "32", "from 1 to 31");
    refused("GPUWIRE_TIMEOUT", "long", "from 1 to 31");
    refused("GPUWIRE_GRH", "2", "from 0 to 1");
    refused("GPUWIRE_RELAXED_ORDERING", "yes", "from 0 to 1");
    refused("GPUWIRE_GPU_FLUSH", "never", "from 0 to 1");
}

static struct ibv_qp_attr attributes(const struct side *s)
{
    const int mask = IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_TIMEOUT;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr a;

    assert_int_equal(ibv_query_qp(s->qp->qp, &a, mask, &init), 0);
    return a;
}

static void settings_are_what_connections_have(void **state)
{
    const struct gw_connect_opts own = {.timeout = 15, .traffic_class = 8, .service_level = 1};
    struct ibv_qp_attr a;
    struct side s;

    (void)state;
    open_with(&s, NULL, NULL);
    assert_int_equal(join_sides(&s, &s, NULL), 0);
    a = attributes(&s);
    assert_true(a.timeout == 18 && !a.pkey_index && !a.ah_attr.sl && !a.ah_attr.grh.traffic_class);
    assert_int_equal(close_side(&s), 0);

    setenv("GPUWIRE_PKEY", "0x123", 1);
    setenv("GPUWIRE_SL", "3", 1);
    setenv("GPUWIRE_TC", "106", 1);
    open_with(&s, "GPUWIRE_TIMEOUT", "20");
    assert_int_equal(join_sides(&s, &s, NULL), 0);
    a = attributes(&s);
    assert_true(a.timeout == 20 && a.pkey_index == 1 && a.ah_attr.sl == 3 &&
                a.ah_attr.grh.traffic_class == 106);
    assert_int_equal(one_puts(&s, &s, "in a partition"), 0);
    assert_int_equal(gw_qp_reset(s.qp, GW_RESET_QUIET, 0), 0);
    assert_int_equal(join_sides(&s, &s, &own), 0); /* the program's own word counts more */
    a = attributes(&s);
    assert_true(a.timeout == 15 && a.ah_attr.sl == 1 && a.ah_attr.grh.traffic_class == 8);
    assert_int_equal(close_side(&s), 0);
    unsetenv("GPUWIRE_PKEY");
    unsetenv("GPUWIRE_SL");
    unsetenv("GPUWIRE_TC");
}

static void partitions_do_not_hear_each_other(void **state)
{
    const struct gw_connect_opts soon = {.timeout = 10, .retry_cnt = 1};
    struct side s, other;

    (void)state;
    open_with(&s, "GPUWIRE_PKEY", "0x8123");
    open_with(&other, NULL, NULL);
    assert_int_equal(join_sides(&s, &other, &soon), 0);
    assert_int_equal(put_and_wait_at(&s, other.mr->addr, other.mr->rkey, 8, IBV_WC_RETRY_EXC_ERR), 0);
    assert_int_equal(close_side(&other), 0);
    assert_int_equal(close_side(&s), 0);
}

/* Without an IPoIB interface an InfiniBand port has no address, and the errors say so. */
static void infiniband_needs_ipoib(void **state)
{
    struct sockaddr_storage sa;
    struct side s;

    (void)state;
    open_with(&s, NULL, NULL);
    assert_true(gw_own_address(s.dev, AF_INET, &sa));
    assert_int_equal(((struct sockaddr_in *)&sa)->sin_addr.s_addr, inet_addr(OWN_ADDRESS));
    assert_string_equal(gw_cm_lacks(s.dev), "");
    s.dev->roce = false;
    assert_false(gw_own_address(s.dev, AF_INET, &sa));
    assert_non_null(strstr(gw_cm_lacks(s.dev), "IPoIB"));
    struct gw_listener *l;
    assert_int_equal(gw_cm_listen(s.dev, NULL, 0, &l), -EADDRNOTAVAIL);
    assert_non_null(strstr(gw_last_error(), "modprobe ib_ipoib"));
    s.dev->roce = true;
    assert_int_equal(close_side(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_that_works_is_chosen),
        cmocka_unit_test(another_one_can_be_asked_for),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(settings_are_what_connections_have),
        cmocka_unit_test(partitions_do_not_hear_each_other),
        cmocka_unit_test(infiniband_needs_ipoib),
    };
    char nic[300];

    /* In this test's own network namespace. */
    if (system("ip address add 10.92.0.1/32 dev lo")) return fprintf(stderr, "no address for lo\n"), 77;
    has_down = !system("ip link add gwdown0 type bridge && ip address add 10.91.0.1/24 dev gwdown0");
    if (!has_down) fprintf(stderr, "no interface can be made that is down\n");
    snprintf(
        nic, sizeof(nic),
        "addr=%s,hostile=1,seed=3,pkeys=ffff/8123,gids=zero/fe80::5%%lo/v1:10.93.0.1/10.92.0.1%%lo/%s/own",
        OWN_ADDRESS, has_down ? "10.91.0.1%gwdown0" : "v1:10.91.0.1");
    setenv("GPUWIRE_NIC", nic, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
