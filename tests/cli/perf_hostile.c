/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer of `gpuwire perf` that means no good: perf_hostile HOST PORT CASE plays the client, perf_hostile -
 * PORT CASE the side that waits. It says on standard output what became of it, and ends in seconds whatever
 * the other end does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/connect.h>

#include "src/cli/perf/perf.h"

#define LIMIT UINT64_C(8000000000)

static struct gw_device *dev;
static struct gw_pd *pd;
static struct gw_cq *cq[2];
static struct gw_qp *qp[3];
static struct gw_mr *mr;
static struct gw_link *links[3];
static uint8_t box[16384] __attribute__((aligned(4096)));
static struct gw_offer hello = {.data_len = 8, .data = {'p', 'e', 'r', 'f', 0, 0, 0, PERF_VERSION}};

static void must(int err, const char *what)
{
    if (!err) return;
    printf("%s: %d, %s\n", what, err, gw_last_error());
    exit(1);
}

static void make(void)
{
    struct gw_cq_attr ca = {.cqe = 4096, .flags = GW_CQ_SLEEP, .qps = 3};
    struct gw_qp_attr qa = {.max_send_wr = 256, .max_recv_wr = 64};

    must(gw_device_open(NULL, NULL, &dev), "device");
    must(gw_pd_create(dev, &pd), "domain");
    for (int i = 0; i < 2; i++) must(gw_cq_create(dev, &ca, &cq[i]), "queue");
    qa.send_cq = cq[0], qa.recv_cq = cq[1];
    for (int i = 0; i < 3; i++) must(gw_qp_create(pd, &qa, &qp[i]), "queue pair");
    must(gw_mr_register(pd, box, sizeof(box), 0, &mr), "memory");
    for (uint64_t i = 0; i < 8; i++)
        must(gw_recv(gw_qp_handle(qp[0]), mr->addr + 8192 + i * 1024, mr->lkey, 1024, i), "receive");
}

static void say(const void *what, uint32_t n)
{
    struct ibv_wc wc;

    memcpy(box, what, n < sizeof(struct perf_msg) ? n : sizeof(struct perf_msg));
    must(gw_send(gw_qp_handle(qp[0]), mr->addr, mr->lkey, n, GW_SIGNALED, 0), "send");
    if (gw_wait_cq(gw_cq_handle(cq[0]), 1, &wc, gw_deadline(LIMIT), NULL, -1) == 1 && wc.status)
        printf("not taken: %s\n", ibv_wc_status_str(wc.status));
}

/* What it answers, or that it has gone. */
static void hear(void)
{
    uint64_t end = gw_deadline(LIMIT);
    struct perf_msg m;
    struct ibv_wc wc;

    while (gw_clock_ns() < end) {
        if (gw_wait_cq(gw_cq_handle(cq[1]), 1, &wc, gw_deadline(100000000), NULL, -1) == 1) {
            memcpy(&m, box + 8192 + wc.wr_id * 1024, sizeof(m));
            m.text[sizeof(m.text) - 1] = 0;
            printf("answer %u %s\n", m.word, wc.status ? ibv_wc_status_str(wc.status) : m.text);
            return;
        }
        if (gw_cm_ended(links[0], -1, 0) == 1) {
            printf("gone\n");
            return;
        }
    }
    printf("silence\n");
}

static struct perf_msg first(void)
{
    return (struct perf_msg){.magic = PERF_MAGIC,
                             .word = PERF_HELLO,
                             .shape = {.test = PERF_TEST_BW,
                                       .op = PERF_PUT,
                                       .qps = 1,
                                       .depth = 16,
                                       .posters = 1,
                                       .batch = 1,
                                       .size = 64}};
}

static const char *host;
static uint16_t port;

static void more(int i, uint32_t number)
{
    struct gw_offer mine = {.data_len = 4}, theirs;

    memcpy(mine.data, &number, 4);
    int err = gw_cm_connect(qp[i], host, port, NULL, &mine, -1, gw_deadline(LIMIT), &theirs, &links[i]);
    if (err) printf("refused: %s\n", gw_last_error());
}

/* ---- as a client --------------------------------------------------------------------------------------- */

static void agree(struct perf_msg *m)
{
    *m = first();
    say(m, sizeof(*m));
    hear();
    more(1, 0);
}

static void client(const char *how)
{
    struct perf_msg m = first();
    struct gw_offer theirs;

    if (!strcmp(how, "thief")) { /* takes a queue pair that was meant for another */
        more(1, 0);
        return;
    }
    if (!strcmp(how, "stranger")) hello.data_len = 3;
    if (!strcmp(how, "version")) hello.data[7]++;
    int err = gw_cm_connect(qp[0], host, port, NULL, &hello, -1, gw_deadline(LIMIT), &theirs, &links[0]);
    if (err) printf("refused: %s\n", gw_last_error());
    if (err) return;
    if (!strcmp(how, "magic")) m.magic++;
    if (!strcmp(how, "word")) m.word = 77;
    if (!strcmp(how, "early")) m.word = PERF_STEP, m.size = 8;
    if (!strcmp(how, "nothing_runs")) m.word = PERF_STOP, m.size = 8;
    if (!strcmp(how, "shape")) m.shape.qps = m.shape.op = UINT32_MAX;
    if (!strcmp(how, "memory")) m.shape.size = PERF_MAX_SIZE, m.shape.posters = 1000;
    if (!strcmp(how, "queues")) m.shape.qps = 1024, m.shape.depth = 32768;
    if (!strcmp(how, "mtu")) m.shape.mtu = 300;
    if (!strcmp(how, "twice") || !strcmp(how, "big_step") || !strcmp(how, "big_stop") ||
        !strcmp(how, "both")) {
        agree(&m);
        m.word = PERF_STEP, m.magic = PERF_MAGIC, m.size = !strcmp(how, "big_step") ? UINT64_C(1) << 63 : 64;
        if (!strcmp(how, "twice")) m = first();
        if (!strcmp(how, "big_stop")) {
            say(&m, sizeof(m));
            hear();
            m.word = PERF_STOP, m.count = UINT64_C(1) << 60;
        }
    }
    if (!strcmp(how, "number")) {
        say(&m, sizeof(m));
        hear();
        more(1, 7); /* there is none of that number, */
        more(2, 0);
        return;
    }
    say(&m, !strcmp(how, "short") ? 20 : !strcmp(how, "long") ? 4096 : sizeof(m));
    if (!strcmp(how, "flood"))
        for (int i = 0; i < 200; i++) (void)gw_send(gw_qp_handle(qp[0]), mr->addr, mr->lkey, sizeof(m), 0, 0);
    hear();
    if (!strcmp(how, "silent")) (void)gw_cm_ended(links[0], -1, gw_deadline(4 * LIMIT));
}

/* ---- as the side that waits ---------------------------------------------------------------------------- */

static void server(const char *how)
{
    struct gw_listener *l;
    struct gw_request *r;
    struct perf_msg m = {.magic = PERF_MAGIC, .word = PERF_OK};
    struct gw_offer nothing = {.data_len = 4};

    must(gw_cm_listen(dev, NULL, port, &l), "listen");
    fprintf(stderr, "waiting for a client\n");
    must(gw_cm_next(l, -1, gw_deadline(4 * LIMIT), &r), "request");
    if (!strcmp(how, "version")) hello.data[7]++;
    must(gw_cm_accept(r, qp[0], NULL, &hello, -1, gw_deadline(LIMIT), &links[0]), "accept");
    if (!strcmp(how, "leaves") || !strcmp(how, "version")) {
        if (how[0] == 'v') hear();
        gw_cm_close(links[0]);
        exit(0);
    }
    hear();
    if (!strcmp(how, "magic")) m.magic++;
    if (!strcmp(how, "word")) m.word = PERF_STEP;
    if (!strcmp(how, "text")) m.word = PERF_ERROR, memset(m.text, 0x1b, sizeof(m.text));
    say(&m, sizeof(m));
    if (!strcmp(how, "little") && !gw_cm_next(l, -1, gw_deadline(LIMIT), &r))
        must(gw_cm_accept(r, qp[1], NULL, &nothing, -1, gw_deadline(LIMIT), &links[1]), "accept");
    (void)gw_cm_ended(links[0], -1, gw_deadline(LIMIT));
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    host = argv[1];
    port = (uint16_t)atoi(argv[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    make();
    if (strcmp(host, "-"))
        client(argv[3]);
    else
        server(argv[3]);
    fflush(stdout);
    for (int i = 0; i < 3; i++) gw_cm_close(links[i]);
    return 0; /* the rest goes with the process */
}
