/* SPDX-License-Identifier: Apache-2.0 */
/* A GID table with empty entries, and with the NIC's address twice. */
#include "tests/uverbs/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <unistd.h>

enum { ENTRIES = 6, FIRST_OWN = 1, V1 = 3, SECOND_OWN = 5 };

static bool is_empty(int i)
{
    return i != FIRST_OWN && i != V1 && i != SECOND_OWN;
}

static void empty_entries_have_no_data(void **state)
{
    union ibv_gid gid, zero = {{0}};
    struct ibv_gid_entry e;

    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        assert_int_equal(ibv_query_gid(r.ctx, 1, i, &gid), 0);
        assert_int_equal(!memcmp(&gid, &zero, sizeof(gid)), is_empty(i));
        assert_int_equal(ibv_query_gid_ex(r.ctx, 1, (uint32_t)i, &e, 0), is_empty(i) ? ENODATA : 0);
        if (is_empty(i)) continue;
        assert_memory_equal(&e.gid, &gid, sizeof(gid));
        assert_int_equal(e.gid_index, i);
        assert_int_equal(e.gid_type, i == V1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
        assert_int_not_equal(e.ndev_ifindex, 0);
    }
    assert_int_equal(ibv_query_gid_ex(r.ctx, 1, ENTRIES, &e, 0), EINVAL);
    assert_int_equal(ibv_query_gid_ex(r.ctx, 2, 0, &e, 0), EINVAL);
}

static void tables_leave_them_out(void **state)
{
    static const uint32_t there[] = {FIRST_OWN, V1, SECOND_OWN};
    struct ibv_gid_entry table[ENTRIES];

    (void)state;
    assert_int_equal(ibv_query_gid_table(r.ctx, table, ENTRIES, 0), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(table[i].gid_index, there[i]);
    assert_int_equal(ibv_query_gid_table(r.ctx, table, 3, 0), 3);
    assert_int_equal(ibv_query_gid_table(r.ctx, table, 2, 0), -EINVAL);
}

static uint16_t checksum(const void *header)
{
    uint16_t half[10];
    uint32_t sum = 0;

    memcpy(half, header, sizeof(half));
    for (int i = 0; i < 10; i++) sum += half[i];
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* It looks for the GID that the datagram was sent to, from index 0 on. */
static void an_address_is_made_of_a_completion(void **state)
{
    struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .src_qp = 5};
    struct ibv_ah_attr attr = {0};
    struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP};
    char grh[40] = {0};

    (void)state;
    memcpy(&ip.saddr, &r.gid.raw[12], 4);
    memcpy(&ip.daddr, &r.gid.raw[12], 4);
    ip.check = checksum(&ip);
    memcpy(grh + 20, &ip, sizeof(ip));
    assert_int_equal(ibv_init_ah_from_wc(r.ctx, 1, &wc, (struct ibv_grh *)(void *)grh, &attr), 0);
    assert_int_equal(attr.grh.sgid_index, FIRST_OWN);
}

static int read_attr(const char *folder, int i, char *text, size_t size)
{
    char path[128];

    snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/%s/%d", folder, i);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, size);
    int err = errno;
    close(fd);
    return n < 0 ? -err : (int)n;
}

/* As in the kernel: they are there, and cannot be read. */
static void files_of_empty_entries_cannot_be_read(void **state)
{
    char text[64];

    (void)state;
    if (access("/sys/class/infiniband/mlx5_0", F_OK)) skip(); /* a sanitizer stands before the NIC */
    for (int i = 0; i < ENTRIES; i++) {
        int n = read_attr("types", i, text, sizeof(text));

        if (is_empty(i)) assert_int_equal(n, -EINVAL);
        if (!is_empty(i)) assert_int_equal(n, strlen(i == V1 ? "IB/RoCE v1\n" : "RoCE v2\n"));
        n = read_attr("ndevs", i, text, sizeof(text));
        assert_true(is_empty(i) ? n == -EINVAL : n == 3);
    }
}

static void connect_from(struct ibv_qp *qp, uint8_t index, uint32_t to)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = to,
                             .max_dest_rd_atomic = 1,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.dgid = r.gid, .sgid_index = index, .hop_limit = 64}}};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 1, .max_rd_atomic = 1};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void both_entries_of_the_address_work(void **state)
{
    static const struct {
        uint8_t from;
        enum ibv_wc_status status;
    } cases[] = {{FIRST_OWN, IBV_WC_SUCCESS}, {SECOND_OWN, IBV_WC_SUCCESS}, {V1, IBV_WC_RETRY_EXC_ERR}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ibv_qp *qp = rig_qp(&r, r.cq), *peer = rig_qp(&r, r.cq);

        connect_from(qp, cases[i].from, peer->qp_num);
        connect_from(peer, FIRST_OWN, qp->qp_num);
        assert_int_equal(rig_write(qp, &r, 0, 4096, 100, 1), 0);
        assert_int_equal(rig_poll(r.cq).status, cases[i].status);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_int_equal(ibv_destroy_qp(peer), 0);
    }
}

static int up_here(void **state)
{
    up(state);
    return ibv_query_gid(r.ctx, 1, FIRST_OWN, &r.gid);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up_here, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(empty_entries_have_no_data), T(tables_leave_them_out), T(an_address_is_made_of_a_completion),
        T(files_of_empty_entries_cannot_be_read), T(both_entries_of_the_address_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
