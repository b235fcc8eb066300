/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_cm_port, gw_cm_peer, gw_cm_offer, gw_cm_refuse, gw_cm_ended: accepting and refusing peers. A thread asks
 * twice for a connection. The first time it lacks the word that the listening side expects, and is refused
 * with a reason. The second time it has it. Each side then knows where the other's memory is, and learns of
 * the connection's end. (The calls that every program needs, without these, are in pingpong_kernel.c.)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/connect.h>

#define LIMIT 10000000000u /* nanoseconds */

static struct gw_device *dev;
static struct gw_pd *pd;
static uint16_t port;

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", what, gw_last_error());
    exit(1);
}

struct side {
    struct gw_cq *cq;
    struct gw_qp *qp;
};

static void make(struct side *s)
{
    struct gw_cq_attr ca = {.cqe = 64};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 16};

    must(!gw_cq_create(dev, &ca, &s->cq), "completion queue");
    qa.send_cq = qa.recv_cq = s->cq;
    must(!gw_qp_create(pd, &qa, &s->qp), "queue pair");
}

static void unmake(struct side *s)
{
    must(!gw_qp_destroy(s->qp) && !gw_cq_destroy(s->cq), "queue pair");
}

static const char *host_of(const struct gw_device *d, char text[32])
{
    struct gw_device_info info;

    gw_device_query(d, &info);
    snprintf(text, 32, "%u.%u.%u.%u", info.gid[12], info.gid[13], info.gid[14], info.gid[15]);
    return text;
}

static void *asks(void *arg)
{
    struct gw_offer mine = {.data_len = 6, .data = "sesame"}, none = {0}, theirs;
    struct gw_link *link;
    struct side s;
    char host[32];

    make(&s);
    must(gw_cm_connect(s.qp, host_of(dev, host), port, NULL, &none, -1, gw_deadline(LIMIT), NULL, &link) ==
             -ECONNREFUSED,
         "it was to be refused");
    printf("%s\n", gw_last_error());
    must(!gw_qp_reset(s.qp, GW_RESET_QUIET, 0), "once more");
    must(!gw_cm_connect(s.qp, host, port, NULL, &mine, -1, gw_deadline(LIMIT), &theirs, &link), "connecting");
    must(theirs.region.length == 4096, "its region");
    gw_cm_close(link); /* the other side gets an event */
    unmake(&s);
    return arg;
}

/* Lets in who says the word, and tells him where our memory is. */
static struct gw_link *let_in(struct gw_listener *listener, struct gw_qp *qp, const struct gw_offer *mine)
{
    struct gw_request *request;
    struct gw_link *link;

    for (;;) {
        must(!gw_cm_next(listener, -1, gw_deadline(LIMIT), &request), "no client came");
        const struct gw_offer *his = gw_cm_offer(request);

        printf("%s asks, and says %u bytes\n", gw_cm_peer(request), his->data_len);
        if (his->data_len == 6 && !memcmp(his->data, "sesame", 6)) break;
        gw_cm_refuse(request, "say the word");
    }
    must(!gw_cm_accept(request, qp, NULL, mine, -1, gw_deadline(LIMIT), &link), "accepting");
    return link;
}

int main(void)
{
    _Alignas(4096) static uint8_t bytes[4096];
    struct gw_listener *listener;
    struct gw_offer mine = {0};
    struct gw_link *link;
    pthread_t thread;
    struct gw_mr *mr;
    struct side s;

    must(!gw_device_open(NULL, NULL, &dev) && !gw_pd_create(dev, &pd), "network device");
    must(!gw_mr_register(pd, bytes, sizeof(bytes), 0, &mr), "memory region");
    mine.region = (struct gw_region){mr->addr, mr->length, mr->rkey};
    make(&s);
    must(!gw_cm_listen(dev, NULL, 0, &listener), "listening"); /* any free port: which, it tells */
    port = gw_cm_port(listener);
    must(!pthread_create(&thread, NULL, asks, NULL), "thread");

    link = let_in(listener, s.qp, &mine);
    must(gw_cm_ended(link, -1, gw_deadline(LIMIT)) == 1, "the end of the connection");
    pthread_join(thread, NULL);
    printf("it is over\n");

    gw_cm_close(link);
    gw_cm_unlisten(listener);
    unmake(&s);
    must(!gw_mr_free(mr) && !gw_pd_destroy(pd), "the end");
    return gw_device_close(dev);
}
