/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes with a NIC each, at one address: endpoints as text, data both ways, and a peer that is
 * killed. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "tests/child.h"

#define BYTES  (1u << 20)
#define ROUNDS 50
#define LIMIT  60000000000u

struct side {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr, *other_mr;
    struct gw_pd *other_pd;
    uint8_t *mem;
    uint64_t peer_addr;
    uint32_t peer_rkey, peer_other_rkey;
};

static int open_side(struct side *s)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 32, .max_recv_wr = 32};

    s->mem = aligned_alloc(4096, 2 * BYTES);
    TRY(s->mem);
    memset(s->mem, 0, 2 * BYTES);
    TRY(!gw_device_open("softnic", NULL, &s->dev));
    TRY(!gw_pd_create(s->dev, &s->pd) && !gw_pd_create(s->dev, &s->other_pd));
    TRY(!gw_cq_create(s->dev, &ca, &s->cq));
    qa.send_cq = qa.recv_cq = s->cq;
    TRY(!gw_qp_create(s->pd, &qa, &s->qp));
    TRY(!gw_mr_register(s->pd, s->mem, 2 * BYTES, 0, &s->mr));
    TRY(!gw_mr_register(s->other_pd, s->mem, 2 * BYTES, 0, &s->other_mr));
    return 0;
}

static int meet(struct side *s, int fd)
{
    struct gw_connect_opts opts = {.timeout = 16,
                                   .retry_cnt = 3}; /* 0.27 s: a busy machine may keep a peer waiting */
    char text[GW_ENDPOINT_TEXT + 80] = "", theirs[sizeof(text)];
    struct gw_endpoint ep;

    gw_qp_endpoint(s->qp, &ep);
    gw_endpoint_format(&ep, text);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), " %llx %x %x", (unsigned long long)s->mr->addr,
             s->mr->rkey, s->other_mr->rkey);
    TRY(write(fd, text, sizeof(text)) == sizeof(text));
    TRY(recv(fd, theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
    char *rest = strchr(theirs, ' ');
    TRY(rest);
    *rest++ = 0;
    unsigned long long addr;
    TRY(sscanf(rest, "%llx %x %x", &addr, &s->peer_rkey, &s->peer_other_rkey) == 3);
    s->peer_addr = addr;
    TRY(!gw_endpoint_parse(theirs, &ep));
    TRY(!gw_recv_empty(gw_qp_handle(s->qp), 32, 0));
    TRY(!gw_qp_connect(s->qp, &ep, &opts));
    /* Both are connected before anybody sends. */
    TRY(write(fd, "c", 1) == 1 && recv(fd, text, 1, MSG_WAITALL) == 1);
    return 0;
}

static void fill(uint8_t *p, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++) p[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
}

/* Waits for a completion of the kind wanted: others of our own sends come in between. */
static int expect(struct side *s, enum ibv_wc_opcode opcode, struct ibv_wc *wc)
{
    uint64_t deadline = gw_deadline(LIMIT);

    do {
        TRY(gw_wait_cq(gw_cq_handle(s->cq), 1, wc, deadline, NULL, -1) == 1);
        TRY(wc->status == IBV_WC_SUCCESS);
    } while (wc->opcode != opcode);
    return 0;
}

/* Round i: the first process writes a stretch, the second checks it and writes it back elsewhere. */
static int exchange(struct side *s, int first)
{
    uint8_t *want = malloc(BYTES);
    struct ibv_wc wc;

    TRY(want);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t len = i * 20011 % BYTES;

        fill(want, len, i);
        if (first) {
            memcpy(s->mem, want, len);
            TRY(!gw_post_op(gw_qp_handle(s->qp),
                            gw_put_imm_op(s->mr->addr, s->mr->lkey, s->peer_addr, s->peer_rkey, len, i),
                            GW_SIGNALED, i));
        }
        TRY(!expect(s, IBV_WC_RECV_RDMA_WITH_IMM, &wc));
        TRY(gw_wc_imm(&wc) == i && wc.byte_len == len);
        TRY(!memcmp(first ? s->mem + BYTES : s->mem, want, len));
        TRY(!gw_recv_empty(gw_qp_handle(s->qp), 1, 0));
        if (!first)
            TRY(!gw_post_op(
                gw_qp_handle(s->qp),
                gw_put_imm_op(s->mr->addr, s->mr->lkey, s->peer_addr + BYTES, s->peer_rkey, len, i),
                GW_SIGNALED, i));
    }
    free(want);
    return 0;
}

static int child(int fd)
{
    struct side s = {0};
    char go;
    int line = open_side(&s);

    if (!line) line = meet(&s, fd);
    if (!line) line = exchange(&s, 0);
    /* Then be there, doing nothing, until killed. */
    if (!line && write(fd, "d", 1) == 1) (void)!read(fd, &go, 1);
    return line ? 1 : 0;
}

/* Uses a key of the peer's other protection domain: refused, and the peer is unharmed. */
static int trespass(struct side *s)
{
    struct ibv_wc wc;
    struct gw_fault fault;

    TRY(!gw_post_op(gw_qp_handle(s->qp),
                    gw_put_op(s->mr->addr, s->mr->lkey, s->peer_addr, s->peer_other_rkey, 64), 0, 77));
    do TRY(gw_wait_cq(gw_cq_handle(s->cq), 1, &wc, gw_deadline(LIMIT), NULL, -1) == 1);
    while (wc.status == IBV_WC_SUCCESS);
    TRY(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 77);
    TRY(gw_qp_fault(s->qp, &fault) == 1 && fault.status == IBV_WC_REM_ACCESS_ERR);
    return 0;
}

/* The peer is killed: requests fail, soon, and the queue pair can be used for another peer. */
static int survive(struct side *s, pid_t pid)
{
    uint64_t before;
    struct ibv_wc wc;
    int status;

    TRY(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
    before = gw_clock_ns();
    TRY(!gw_post_op(gw_qp_handle(s->qp), gw_put_op(s->mr->addr, s->mr->lkey, s->peer_addr, s->peer_rkey, 64),
                    GW_SIGNALED, 88));
    do TRY(gw_wait_cq(gw_cq_handle(s->cq), 1, &wc, gw_deadline(LIMIT), NULL, -1) == 1);
    while (wc.status == IBV_WC_SUCCESS);
    TRY(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == 88);
    printf("measured: a killed peer is noticed after %.0f ms\n", (double)(gw_clock_ns() - before) / 1e6);
    TRY(!gw_qp_reset(s->qp, GW_RESET_QUIET, 0));
    return 0;
}

static int close_side(struct side *s)
{
    TRY(!gw_qp_destroy(s->qp) && !gw_cq_destroy(s->cq) && !gw_mr_free(s->mr) && !gw_mr_free(s->other_mr));
    TRY(!gw_pd_destroy(s->pd) && !gw_pd_destroy(s->other_pd) && !gw_device_close(s->dev));
    free(s->mem);
    return 0;
}

static pid_t start_child(int *fd)
{
    pid_t pid = child_fork(fd);

    assert_true(pid >= 0);
    if (!pid) _exit(child(*fd));
    return pid;
}

static void test_two_processes(void **state)
{
    struct side s = {0};
    char done;
    int fd[2];
    pid_t pid[2];

    (void)state;
    pid[0] = start_child(&fd[0]);
    pid[1] = start_child(&fd[1]);
    assert_int_equal(open_side(&s), 0);
    assert_int_equal(meet(&s, fd[0]), 0);
    assert_int_equal(exchange(&s, 1), 0);
    assert_int_equal(recv(fd[0], &done, 1, MSG_WAITALL), 1);
    assert_int_equal(survive(&s, pid[0]), 0);
    /* The same queue pair, another peer. */
    assert_int_equal(meet(&s, fd[1]), 0);
    assert_int_equal(exchange(&s, 1), 0);
    assert_int_equal(recv(fd[1], &done, 1, MSG_WAITALL), 1);
    assert_int_equal(trespass(&s), 0);
    kill(pid[1], SIGKILL);
    waitpid(pid[1], NULL, 0);
    assert_int_equal(close_side(&s), 0);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_processes)};

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
