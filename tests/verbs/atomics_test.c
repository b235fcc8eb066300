/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's driver chooses a mode of atomics: a device tells which there are, and others are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#define LIMIT UINT64_C(20000000000)

struct host {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_device_info info;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp; /* connected to itself */
    struct gw_mem mem;
    struct gw_mr *mr;
    uint64_t *word; /* the first; answers go to the second */
};

static void must(int err)
{
    if (err) fail_msg("%d: %s", err, gw_last_error());
}

static void begin(struct host *h, const char *nic)
{
    struct gw_cq_attr ca = {.cqe = 16};
    struct gw_qp_attr qa = {.max_send_wr = 8, .max_recv_wr = 1};
    struct gw_endpoint itself;

    setenv("GPUWIRE_NIC", nic, 1);
    must(gw_exec_create("cpu", NULL, &h->exec));
    must(gw_device_open("softnic", h->exec, &h->dev));
    gw_device_query(h->dev, &h->info);
    must(gw_pd_create(h->dev, &h->pd));
    must(gw_cq_create(h->dev, &ca, &h->cq));
    qa.send_cq = qa.recv_cq = h->cq;
    must(gw_qp_create(h->pd, &qa, &h->qp));
    gw_qp_endpoint(h->qp, &itself);
    must(gw_qp_connect(h->qp, &itself, NULL));
    must(gw_mem_alloc(h->exec, GW_MEM_HOST, 4096, &h->mem));
    must(gw_mr_register(h->pd, h->mem.host, 4096, 0, &h->mr));
    h->word = h->mem.host;
}

static void end(struct host *h)
{
    must(gw_qp_destroy(h->qp));
    must(gw_cq_destroy(h->cq));
    must(gw_mr_free(h->mr));
    gw_mem_free(&h->mem);
    must(gw_pd_destroy(h->pd));
    must(gw_device_close(h->dev));
    must(gw_exec_destroy(h->exec));
}

/* Posts it, and takes its completion if it was taken. */
static int done(struct host *h, struct gw_op op)
{
    uint64_t until = gw_deadline(LIMIT);
    struct ibv_wc wc = {0};
    int n, err = gw_post_op(gw_qp_handle(h->qp), op, GW_SIGNALED, 1);

    if (err) return err;
    while (!(n = gw_poll_cq(gw_cq_handle(h->cq), 1, &wc)) && gw_clock_ns() < until) gw_pause(1);
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return 0;
}

static struct gw_op add(struct host *h, uint64_t by)
{
    return gw_fetch_add_op(h->mr->addr + 8, h->mr->lkey, h->mr->addr, h->mr->rkey, by);
}

static struct gw_op masked_add(struct host *h)
{
    return gw_masked_fetch_add_op(h->mr->addr + 8, h->mr->lkey, h->mr->addr, h->mr->rkey, 1, 0x80);
}

static struct gw_op masked_swap(struct host *h)
{
    return gw_with_masks(gw_cmp_swap_op(h->mr->addr + 8, h->mr->lkey, h->mr->addr, h->mr->rkey, 0, 0xab),
                         0xff, 0xff);
}

static struct gw_op put(struct host *h)
{
    return gw_put_op(h->mr->addr, h->mr->lkey, h->mr->addr + 64, h->mr->rkey, 8);
}

static int by_libibverbs(const struct host *h)
{
    return h->info.post_mode == GW_POST_PROXY_POST;
}

static void all_modes(void **state)
{
    struct host h;

    (void)state;
    begin(&h, "addr=127.0.0.1");
    assert_int_equal(h.info.masked_atomics, !by_libibverbs(&h));
    assert_string_equal(h.info.masked_why,
                        by_libibverbs(&h) ? "posting mode proxy-post: libibverbs has none" : "");
    *h.word = 0xff;
    assert_int_equal(done(&h, masked_add(&h)), by_libibverbs(&h) ? -EOPNOTSUPP : 0);
    if (!by_libibverbs(&h)) assert_int_equal(*h.word, 0);
    *h.word = 0;
    assert_int_equal(done(&h, masked_swap(&h)), by_libibverbs(&h) ? -EOPNOTSUPP : 0);
    if (!by_libibverbs(&h)) assert_int_equal(*h.word, 0xab);
    end(&h);
}

static void without_masked(void **state)
{
    struct host h;

    (void)state;
    begin(&h, "addr=127.0.0.1,atomics=ib,verbose=0");
    assert_int_equal(h.info.masked_atomics, 0);
    if (!by_libibverbs(&h)) assert_non_null(strstr(h.info.masked_why, "mode of atomics"));
    assert_int_equal(done(&h, masked_add(&h)), -EOPNOTSUPP);
    assert_int_equal(done(&h, masked_swap(&h)), -EOPNOTSUPP);
    *h.word = 0xff;
    must(done(&h, add(&h, 1)));
    assert_int_equal(*h.word, 0x100);
    must(done(&h, gw_with_signal(put(&h), h.mr->addr + 128, h.mr->rkey, 3)));
    assert_int_equal(h.word[16], 3);
    /* It can be asked again: the answer stays. */
    must(gw_post_try(h.dev, (enum gw_post_mode)h.info.post_mode));
    assert_int_equal(done(&h, masked_add(&h)), -EOPNOTSUPP);
    end(&h);
}

static void without_any(void **state)
{
    struct host h;

    (void)state;
    begin(&h, "addr=127.0.0.1,atomics=none");
    assert_int_equal(h.info.masked_atomics, 0);
    assert_string_equal(h.info.masked_why, "the device has no atomics");
    assert_int_equal(done(&h, add(&h, 1)), -EOPNOTSUPP);
    assert_int_equal(done(&h, masked_add(&h)), -EOPNOTSUPP);
    assert_int_equal(done(&h, gw_with_signal(put(&h), h.mr->addr + 128, h.mr->rkey, 3)), -EOPNOTSUPP);
    *h.word = 7;
    must(done(&h, put(&h)));
    assert_int_equal(h.word[8], 7);
    end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_modes), cmocka_unit_test(without_masked),
                                       cmocka_unit_test(without_any)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
