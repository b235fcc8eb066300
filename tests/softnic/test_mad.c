/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pair 1: management datagrams, there and back, and those that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "tests/softnic/world.h"

static struct world w;
static unsigned received[WORLD_NICS], damaged;
static bool answers; /* NIC 1 answers, with every byte one more */

static bool take(unsigned nic, const uint8_t sgid[16], uint8_t mad[SN_MAD_LEN])
{
    assert_memory_equal(sgid, w.nics[1 - nic].gid, 16);
    received[nic]++;
    for (int i = 1; i < SN_MAD_LEN; i++)
        if (mad[i] != mad[0]) damaged++;
    for (int i = 0; i < SN_MAD_LEN; i++) mad[i]++;
    return answers && nic == 1;
}

static int up(void **state)
{
    const struct world_options o = {.seed = 9};

    (void)state;
    world_up(&w, &o);
    w.mad = take;
    memset(received, 0, sizeof(received));
    damaged = 0;
    answers = false;
    return 0;
}

static int down(void **state)
{
    (void)state;
    world_down(&w);
    return 0;
}

static void send_one(unsigned from, uint8_t byte)
{
    uint8_t mad[SN_MAD_LEN];

    memset(mad, byte, sizeof(mad));
    assert_int_equal(sn_nic_mad_send(w.nics[from].nic, w.nics[1 - from].gid, mad), 0);
    world_settle(&w, 1000000000);
}

static void one_goes_through_and_is_answered(void **state)
{
    (void)state;
    send_one(0, 7);
    assert_int_equal(received[1], 1);
    assert_int_equal(received[0], 0);
    answers = true;
    send_one(0, 8);
    assert_int_equal(received[1], 2);
    assert_int_equal(received[0], 1);
    assert_int_equal(damaged, 0);
}

/* They are not repeated here; but what arrives is what was sent. */
static void loss_loses_and_does_not_damage(void **state)
{
    (void)state;
    w.faults = (struct world_faults){
        .loss = 2000, .dup = 1000, .reorder = 1000, .corrupt = 1000, .reorder_ns = 100000, .refuse = 2000};
    for (int i = 0; i < 1000; i++) send_one(0, (uint8_t)i);
    assert_in_range(received[1], 500, 1000);
    assert_int_equal(damaged, 0);
}

/* A frame as another host would send it, but for what `break_it` changes. */
static void forged(void (*break_it)(struct roce_hdr *h, uint32_t *len, uint8_t *src))
{
    struct roce_hdr h = {.opcode = ROCE_UD_SEND_ONLY,
                         .pkey = ROCE_DEFAULT_PKEY,
                         .dqpn = ROCE_GSI_QPN,
                         .sqpn = ROCE_GSI_QPN,
                         .qkey = ROCE_GSI_QKEY};
    struct roce_path path = {.sport = 0xc000, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint8_t frame[SN_FRAME_MAX] = {0};
    uint32_t len = SN_MAD_LEN, at;

    memcpy(path.src, w.nics[0].gid + 12, 4);
    memcpy(path.dst, w.nics[1].gid + 12, 4);
    if (break_it) break_it(&h, &len, path.src);
    at = roce_pack(frame, &h) + len + ROCE_ICRC_LEN;
    roce_icrc_end(roce_icrc(&path, frame, at), frame + at - ROCE_ICRC_LEN);
    world_inject(&w, 1, NULL, 0xc000, frame, at);
    world_run(&w, 1);
}

static void wrong_qkey(struct roce_hdr *h, uint32_t *len, uint8_t *src)
{
    (void)len;
    (void)src;
    h->qkey ^= 1;
}

static void wrong_pkey(struct roce_hdr *h, uint32_t *len, uint8_t *src)
{
    (void)len;
    (void)src;
    h->pkey = 0x1234;
}

static void wrong_opcode(struct roce_hdr *h, uint32_t *len, uint8_t *src)
{
    (void)len;
    (void)src;
    h->opcode = ROCE_SEND_ONLY;
}

static void too_short(struct roce_hdr *h, uint32_t *len, uint8_t *src)
{
    (void)h;
    (void)src;
    *len -= 4;
}

static void wrong_icrc(struct roce_hdr *h, uint32_t *len, uint8_t *src)
{
    (void)h;
    (void)len;
    src[3] ^= 1; /* computed for another address */
}

static void what_is_none_is_dropped_and_counted(void **state)
{
    struct sn_counters c;

    (void)state;
    forged(NULL);
    assert_int_equal(received[1], 1);
    forged(wrong_qkey);
    forged(too_short);
    forged(wrong_pkey);
    forged(wrong_opcode);
    forged(wrong_icrc);
    assert_int_equal(received[1], 1);
    sn_nic_counters(w.nics[1].nic, &c);
    assert_int_equal(c.drop_malformed, 2);
    assert_int_equal(c.drop_pkey, 1);
    assert_int_equal(c.drop_opcode, 1);
    assert_int_equal(c.drop_icrc, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(one_goes_through_and_is_answered),
        T(loss_loses_and_does_not_damage),
        T(what_is_none_is_dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
