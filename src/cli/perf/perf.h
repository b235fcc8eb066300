/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire perf: what its files share. */
#ifndef GW_CLI_PERF_H
#define GW_CLI_PERF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

#include <gpuwire/connect.h>
#include <gpuwire/exec.h>

#include "src/cli/perf/kernels.h"

#define PERF_PATIENCE_NS 20000000000u /* an operation that takes longer has failed */
#define PERF_MAX_SIZE    (UINT64_C(1) << 30)
#define PERF_MAX_MEMORY  (UINT64_C(4) << 30)

enum perf_test { PERF_TEST_POST, PERF_TEST_BW, PERF_TEST_LAT, PERF_TEST_MSGRATE, PERF_TESTS };
enum perf_buffers { PERF_BUFFERS_AUTO, PERF_BUFFERS_HOST, PERF_BUFFERS_MAPPED, PERF_BUFFERS_GPU };
enum perf_output { PERF_HUMAN, PERF_CSV, PERF_JSON };

/* How far the two sides of a loopback of sockets are, as bits. */
enum perf_stage {
    PERF_OPEN = 1, /* who measures has made all that it needs */
    PERF_OVER = 2, /* one of them ends */
};

struct perf_opts {
    enum perf_test test;
    enum perf_op op;
    enum perf_by by;
    enum perf_buffers buffers;
    enum perf_output output;
    uint32_t queues;                  /* enum gw_placement */
    const char *exec, *device, *host; /* host NULL: the side that waits, unless loopback */
    bool loopback, all, verify, shared;
    bool both, events; /* both sides post; receivers sleep */
    uint64_t size;     /* with all: the largest */
    uint64_t iters;    /* of each queue pair; 0: until the time is over */
    uint64_t seconds;
    uint64_t qps, blocks, threads, depth, batch, signal;
    const char *sock; /* perf sock: what carries it, tcp or rdma; NULL: not perf sock */
    bool connects, busy;
    uint32_t *stage; /* sockets, both sides in this process: enum perf_stage; else NULL */
    uint64_t buffer; /* bytes of each socket's buffers; 0: as they are by themselves */
    uint64_t inl;    /* payload of up to this number of bytes is in the request itself */
    /* gid: 1 + index, 0: not said; ib_port, too; rate: operations a second */
    uint64_t port, gpu, mtu, timeout, gid, ib_port, rate;
};

/* The result of one size. */
struct perf_row {
    uint64_t size, ops, ns;  /* ns from the first post to the last completion */
    uint64_t checked, wrong; /* bytes; with --verify */
    uint32_t *sample;        /* lat: ns of each round, there and back; sorted by perf_print */
    uint64_t samples;
    bool cut_short;
};

extern const char *const perf_test_name[PERF_TESTS], *const perf_op_name[PERF_OPS], *const perf_by_name[3];

/* args.c: -1: go on, else the exit code. */
int perf_parse(int argc, char **argv, struct perf_opts *o);
/* One of a list of words: its place; and a size, as in 64k. 0, or GW_EXIT_USAGE after saying what was
 * expected. */
int perf_option_word(const char *command, const char *option, const char *said, const char *const *list,
                     int n, int *out);
int perf_option_size(const char *command, const char *said, uint64_t *out);
/* A side that waits for clients says its device's address after this. */
#define PERF_ADDRESS ", address "
/* perf.c: the address that the other side of a loopback listens at: the NIC's own. */
void perf_address_of(const struct gw_device *dev, char text[INET6_ADDRSTRLEN]);
int perf_own_address(const struct perf_opts *o, char text[INET6_ADDRSTRLEN]);
/* The name of the command in messages, such as "perf bw". */
const char *perf_command(const struct perf_opts *o);

/* ---- side.c: executor, device, queue pairs and memory of one side -------------------------------------- */

/* Both sides must agree on these. */
struct perf_shape {
    uint32_t test, op, qps, depth;
    uint32_t posters; /* of each queue pair */
    uint32_t verify, both, events;
    uint32_t inl, batch;
    uint32_t mtu, timeout; /* 0: as they are by themselves */
    uint64_t size;         /* the largest */
};

struct perf_side {
    struct perf_shape shape;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_device_info info;
    struct gw_pd *pd;
    struct gw_cq **send_cq, **recv_cq;
    struct gw_qp **qp;
    struct gw_link **link;
    struct gw_ah *ah; /* datagrams */
    struct gw_mr *mr;
    struct gw_mem mem; /* the buffer; in plain host memory it is no memory of the executor's */
    bool plain;
    struct gw_mem control; /* host memory: word 0 tells kernels to stop; */
    int stop_fd;           /* the same for CPU threads that sleep */
    struct gw_mem lists;   /* the executor's: handles, counters, results */
    uint64_t span;         /* bytes of the buffer for each queue pair */
    enum perf_buffers buffers;
};

/* 0; -E2BIG: the line says what is too much. */
int perf_shape_of(const struct perf_opts *o, struct perf_shape *shape);
int perf_side_open(struct perf_side *s, const struct perf_opts *o, const struct perf_shape *shape);
void perf_side_close(struct perf_side *s);
/* Slots for operations of this number of bytes. */
struct perf_place perf_side_place(const struct perf_side *s, uint64_t size);
/* Datagrams: makes the queue pair ready, and the way to the peer. */
int perf_side_aim(struct perf_side *s, const struct gw_endpoint *peer);
/* The common part of both ends of a ping-pong. */
struct perf_lat_args perf_side_lat(struct perf_side *s, uint64_t size, uint32_t peer_qpn);
void perf_tell_stop(struct perf_side *s, uint32_t stop);
/* Waits for the kernels, and tells them to stop when Ctrl-C comes or limit_ns (0: none) is over. */
int perf_side_sync(struct perf_side *s, uint64_t limit_ns);
/* An error of the kernels in words: a queue pair's fault, when there is one. */
int perf_side_fault(struct perf_side *s, int err);
int perf_copy_in(struct perf_side *s, uint64_t offset, const void *from, uint64_t n);
int perf_copy_out(struct perf_side *s, void *to, uint64_t offset, uint64_t n);

/* Where things lie in side->lists. */
struct perf_lists {
    struct gw_qp_handle **qp;
    struct gw_cq_handle **recv_cq;
    uint64_t *posted, *got;
    uint32_t *sends, *done;
    int32_t *err;
    struct perf_out *out;
    uint32_t *ns;
};
struct perf_lists perf_side_lists(const struct perf_side *s);
#define PERF_SAMPLES (1u << 20)

/* ---- fill.c: what buffers hold, and whether they do ---------------------------------------------------- */

struct perf_content {
    uint64_t seed; /* 0: zeros */
    bool same;     /* all slots of a queue pair hold the same: receives do not say which slot was sent */
};
int perf_fill(struct perf_side *s, const struct perf_place *at, struct perf_content what);
/* What was written to a side: `size` bytes of `used` slots of each queue pair, from slot first[q] on (NULL:
 * 0). */
struct perf_written {
    struct perf_content what;
    uint64_t size, used;
    const uint64_t *first;
};
/* The side's buffer holds what was written, and zeros elsewhere? Adds to *checked and *wrong. */
int perf_check(struct perf_side *s, const struct perf_place *at, const struct perf_written *w,
               struct perf_row *sum);
/* Atomics. fetched: what `used` operations of each queue pair have brought; target: what they have worked on.
 */
int perf_check_fetched(struct perf_side *s, const struct perf_place *at, uint32_t op, uint64_t used,
                       struct perf_row *sum);
int perf_check_target(struct perf_side *s, const struct perf_place *at, uint32_t op, uint64_t used,
                      uint64_t swap, struct perf_row *sum);

/* ---- check.c: what may be asked for, and where operations lie: pure functions -------------------------- */

struct perf_msg;
/* NULL: nothing; else what is wrong, in words. A shape must have passed before it is given to the others. */
const char *perf_shape_wrong(const struct perf_shape *p);
const char *perf_step_wrong(const struct perf_shape *p, const struct perf_msg *m);
const char *perf_stop_wrong(const struct perf_shape *p, const struct perf_msg *m);
/* Bytes of a slot beside the payload: for a signal's word, or what comes before a datagram. */
uint64_t perf_extra(uint32_t op);
/* The buffer's bytes for each queue pair, and the slots for operations of this number of bytes in them; base
 * and key are 0. */
uint64_t perf_span(const struct perf_shape *p);
struct perf_place perf_place_of(uint64_t span, uint64_t size);
/* Takes what has arrived; false: it is no message. Its text is plain then. */
bool perf_msg_take(struct perf_msg *m, const void *bytes, uint64_t n);

/* ---- control.c: the conversation beside the measured traffic ------------------------------------------- */

#define PERF_MAGIC   0x31667067u /* "gpf1" */
#define PERF_VERSION 3u          /* of struct perf_msg and what it means; told while the two connect */

enum perf_word { PERF_HELLO = 1, PERF_STEP, PERF_STOP, PERF_BYE, PERF_OK, PERF_ERROR };
struct perf_msg {
    uint32_t magic, word;
    struct perf_shape shape; /* HELLO */
    uint64_t size, seed;     /* STEP, STOP */
    uint64_t count;          /* STEP, both ways: operations of each queue pair, 0: until limit_ns is over;
                          STOP: slots of each queue pair that are to be looked at; 0: none */
    uint64_t limit_ns;       /* STEP, both ways */
    struct gw_region inbox; /* STEP: ping-pong, where the client takes answers; both ways, its whole buffer */
    /* STOP: ops that are complete; its answer: what arrived, what was looked at */
    uint64_t checked, wrong, ops;
    uint64_t ns;                 /* answer to STOP, both ways: how long the other side's took */
    struct gw_endpoint ep;       /* HELLO and its answer: datagrams have no connection that would tell */
    uint32_t post_mode, buffers; /* OK to HELLO: the other side's, enum gw_post_mode and enum perf_buffers */
    char text[160];              /* ERROR; OK to HELLO: where the other side runs */
};

struct perf_control;
/* deaf: Ctrl-C does not end its waits. */
int perf_control_open(const char *device, bool deaf, struct perf_control **out);
struct gw_device *perf_control_device(struct perf_control *c);
int perf_control_connect(struct perf_control *c, const char *host, uint16_t port);
/* Returns -EPROTO, with a line of `command`, for a stranger, which was turned away, or a client that left
 * before it was connected. The next client may be accepted then. Ends the request. */
int perf_control_accept(struct perf_control *c, const char *command, struct gw_request *r);
/* Does the request come from the accepted client's address? */
bool perf_control_is_peer(const struct perf_control *c, const struct gw_request *r);
/* Has the peer ended the connection? */
bool perf_control_gone(struct perf_control *c);
int perf_control_send(struct perf_control *c, struct perf_msg *m);
/* limit_ns 0: forever, or until Ctrl-C. -ECONNRESET: the peer has gone; -ECANCELED: Ctrl-C. */
int perf_control_receive(struct perf_control *c, uint64_t limit_ns, struct perf_msg *m);
/* Sends, and receives the answer, which must be OK. */
int perf_control_ask(struct perf_control *c, struct perf_msg *m);
void perf_control_close(struct perf_control *c);

/* ---- the two ends, posting alone, and what is printed -------------------------------------------------- */

/* port 0: it does not listen. dev: the device that it listens on; NULL: none, or sockets. */
typedef void perf_told(void *arg, uint16_t port, const struct gw_device *dev);
/* Serves one client. told (may be NULL) is called once it listens. stop_fd: readable when no client will come
 * any more. */
int perf_serve(const struct perf_opts *o, int stop_fd, perf_told *told, void *arg);
int perf_client(const struct perf_opts *o);
int perf_sink_run(const struct perf_opts *o);

struct perf_about {
    const char *device, *board, *exec, *peer, *peer_exec;
    const char *buffers, *peer_buffers;
    const char *posting, *posting_why, *peer_posting;
    uint32_t mtu;
};
struct perf_printer;
int perf_print_open(const struct perf_opts *o, const struct perf_about *about, struct perf_printer **out);
void perf_print_row(struct perf_printer *p, struct perf_row *row);
void perf_print_close(struct perf_printer *p);

/* sock_args.c: as perf_parse; argv[0] is "sock". sock_end.c: one side. */
int perf_sock_parse(int argc, char **argv, struct perf_opts *o);
int perf_sock_serve(const struct perf_opts *o, perf_told *told, void *arg);
int perf_sock_client(const struct perf_opts *o);

/* run.c: starts the posting kernel, waits for it and adds up; *a holds what is particular to the run. */
int perf_run(struct gw_exec *exec, const struct perf_opts *o, struct perf_post_args *a, uint32_t *stop_host,
             struct perf_row *row);
uint64_t perf_posters(const struct perf_opts *o);
/* Adds up what n posters did. An error of theirs, or of reading it. */
int perf_sum(struct gw_exec *exec, const struct perf_out *dev, uint64_t n, struct perf_row *row);

#endif
