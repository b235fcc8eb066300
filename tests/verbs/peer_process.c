/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/peer_process.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 65536u

static int maker = -1; /* the process that makes them */

/* The messages between peers. */
struct hello {
    char endpoint[GW_ENDPOINT_TEXT];
    uint64_t addr;
    uint32_t rkey;
    int32_t pid;
};

#define TRY(cond)                                                                                            \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "peer: line %d: %s: %s\n", __LINE__, #cond, gw_last_error());                    \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* ---- the peer ------------------------------------------------------------------------------------------ */

static void take(struct gw_qp *qp, struct gw_cq *cq, const struct gw_mr *mr)
{
    struct ibv_wc wc[16];

    for (;;) {
        while (!gw_recv(gw_qp_handle(qp), mr->addr, mr->lkey, 4096, 0)) continue;
        (void)gw_wait_cq(gw_cq_handle(cq), 16, wc, gw_deadline(10000000), NULL, -1);
    }
}

static void peer(int fd)
{
    struct gw_cq_attr ca = {.cqe = 1024};
    struct gw_qp_attr qa = {.max_send_wr = 16, .max_recv_wr = 512};
    struct gw_endpoint ep;
    struct hello me = {.pid = getpid()}, other;
    struct gw_device *dev;
    struct gw_exec *exec;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    uint8_t *mem = aligned_alloc(4096, BYTES);

    TRY(mem && !gw_exec_create("cpu", NULL, &exec) && !gw_device_open("softnic", exec, &dev));
    TRY(!gw_pd_create(dev, &pd) && !gw_cq_create(dev, &ca, &cq));
    qa.send_cq = qa.recv_cq = cq;
    TRY(!gw_qp_create(pd, &qa, &qp) && !gw_mr_register(pd, memset(mem, 0, BYTES), BYTES, 0, &mr));
    gw_qp_endpoint(qp, &ep);
    gw_endpoint_format(&ep, me.endpoint);
    me.addr = mr->addr;
    me.rkey = mr->rkey;
    TRY(write(fd, &me, sizeof(me)) == sizeof(me));
    TRY(recv(fd, &other, sizeof(other), MSG_WAITALL) == sizeof(other));
    TRY(!gw_endpoint_parse(other.endpoint, &ep) && !gw_qp_connect(qp, &ep, NULL));
    while (!gw_recv(gw_qp_handle(qp), mr->addr, mr->lkey, 4096, 0)) continue;
    TRY(write(fd, "c", 1) == 1);
    take(qp, cq, mr);
}

/* For each byte that comes: another one, at the other end of a socket that is passed back. */
static void make_peers(int fd)
{
    char byte, room[CMSG_SPACE(sizeof(int))];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    while (read(fd, &byte, 1) == 1) {
        struct iovec iov = {&byte, 1};
        struct msghdr m = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        int pair[2];

        TRY(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(pair[0]);
            peer(pair[1]);
        }
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pair[0], sizeof(int));
        TRY(sendmsg(fd, &m, 0) == 1);
        close(pair[0]);
        close(pair[1]);
    }
    _exit(0);
}

/* ---- the test ------------------------------------------------------------------------------------------ */

void peer_process_init(void)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) abort();
    if (!fork()) {
        close(pair[0]);
        make_peers(pair[1]);
    }
    close(pair[1]);
    maker = pair[0];
}

static int new_socket(void)
{
    char byte = 0, room[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    int fd;

    assert_int_equal(write(maker, "n", 1), 1);
    assert_int_equal(recvmsg(maker, &m, MSG_CMSG_CLOEXEC), 1);
    assert_non_null(CMSG_FIRSTHDR(&m));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
    return fd;
}

void peer_process_meet(struct peer_process *p, struct gw_qp *qp, const struct gw_connect_opts *opts)
{
    struct hello me = {0}, other;
    struct gw_endpoint ep;
    char byte;

    p->fd = new_socket();
    gw_qp_endpoint(qp, &ep);
    gw_endpoint_format(&ep, me.endpoint);
    assert_int_equal(write(p->fd, &me, sizeof(me)), sizeof(me));
    assert_int_equal(recv(p->fd, &other, sizeof(other), MSG_WAITALL), sizeof(other));
    p->pid = other.pid;
    p->addr = other.addr;
    p->rkey = other.rkey;
    assert_int_equal(gw_endpoint_parse(other.endpoint, &ep), 0);
    if (gw_qp_connect(qp, &ep, opts)) fail_msg("%s", gw_last_error());
    assert_int_equal(recv(p->fd, &byte, 1, MSG_WAITALL), 1);
}

void peer_process_kill(struct peer_process *p)
{
    char byte;

    assert_int_equal(kill(p->pid, SIGKILL), 0);
    /* Its end of the socket is closed when it is gone. */
    assert_true(recv(p->fd, &byte, 1, 0) <= 0);
    close(p->fd);
}
