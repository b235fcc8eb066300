/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of `gpuwire perf` sends messages in any order, and strangers ask for its queue pairs at the same
 * time. The server's code is real; executor, NIC and clock are a few lines. This must hold: kernels run only
 * on an opened and connected side, one measurement at a time, within its buffer. Nothing is freed while a
 * kernel runs, and all is freed at the end.
 */
#include <stdlib.h>
#include <string.h>

#include <gpuwire/connect.h>
#include <gpuwire/exec.h>

#include "src/cli/perf/perf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    const uint8_t *p;
    size_t left;
    uint64_t now;
    bool open, running, told;
    struct perf_side *side;
    struct gw_mr mr;
    struct gw_offer offer;
    uint32_t *linked;
    uint64_t count; /* grows with each look at a counter, so that nothing waits forever */
} f;

static uint8_t take8(void)
{
    if (!f.left) return 0;
    f.left--;
    return *f.p++;
}
static uint64_t take_number(void)
{
    uint8_t how = take8();
    uint64_t n = take8();
    if (how & 1) n = n << 8 | take8();
    if (how & 2) n = n << 24 | (uint64_t)take8() << 8;
    return how & 4 ? ~n : n;
}
static void require(bool ok)
{
    if (!ok) abort();
}
static bool fails(void)
{
    return take8() == 0xff;
}

static uint64_t fuzz_now(void)
{
    return f.now += 1000000000;
}
#define gw_clock_ns    fuzz_now
#define gw_deadline(n) (fuzz_now() + (n))
#define gw_pause(n)    ((void)(n))
#include "src/cli/perf/server.c"

const struct gw_kernel perf_recv_kernel = {"recv", sizeof(struct perf_recv_args), NULL, NULL};
const struct gw_kernel perf_post_kernel = {"post", sizeof(struct perf_post_args), NULL, NULL};
const struct gw_kernel perf_lat_kernel = {"lat", sizeof(struct perf_lat_args), NULL, NULL};

/* ---- the control connection ---------------------------------------------------------------------------- */

int perf_control_open(const char *device, bool deaf, struct perf_control **out)
{
    (void)device, (void)deaf;
    *out = (struct perf_control *)&f;
    return 0;
}
struct gw_device *perf_control_device(struct perf_control *c)
{
    (void)c;
    return NULL;
}
int perf_control_accept(struct perf_control *c, const char *command, struct gw_request *r)
{
    (void)c, (void)command, (void)r;
    return take8() & 1 ? -EPROTO : 0;
}
bool perf_control_is_peer(const struct perf_control *c, const struct gw_request *r)
{
    (void)c, (void)r;
    return take8() & 15;
}
bool perf_control_gone(struct perf_control *c)
{
    (void)c;
    return !f.left;
}
int perf_control_send(struct perf_control *c, struct perf_msg *m)
{
    (void)c;
    require(memchr(m->text, 0, sizeof(m->text)) != NULL);
    return fails() ? -ECONNRESET : 0;
}

/* Numbers near what is allowed, most of the time. */
int perf_control_receive(struct perf_control *c, uint64_t limit_ns, struct perf_msg *m)
{
    struct perf_msg raw = {.magic = PERF_MAGIC, .word = 1 + take8() % 5};
    struct perf_shape *p = &raw.shape;
    (void)c, (void)limit_ns;
    if (!f.left) return gw_error(-ECONNRESET, "gone");
    *p = (struct perf_shape){.test = take8() % 5,
                             .op = take8() % 7,
                             .qps = take8() % 5,
                             .depth = 1 + take8(),
                             .posters = take8() % 5,
                             .batch = 1,
                             .size = 1 + take_number()};
    p->verify = take8() % 2, p->both = !(take8() % 4);
    raw.size = take_number(), raw.count = take_number(), raw.ops = take_number(), raw.seed = take8();
    raw.inbox = (struct gw_region){.addr = take_number(), .length = take8() & 1 ? UINT64_MAX : take_number()};
    require(perf_msg_take(m, &raw, sizeof(raw)));
    return 0;
}
void perf_control_close(struct perf_control *c)
{
    require(c && !f.open);
}

/* ---- who asks for a connection ------------------------------------------------------------------------- */

int gw_cm_listen(struct gw_device *dev, const char *address, uint16_t port, struct gw_listener **out)
{
    (void)dev, (void)address, (void)port;
    *out = NULL;
    return 0;
}
void gw_cm_unlisten(struct gw_listener *l)
{
    (void)l;
}
uint16_t gw_cm_port(const struct gw_listener *l)
{
    (void)l;
    return 7;
}
int gw_cm_next(struct gw_listener *l, int stop_fd, uint64_t deadline_ns, struct gw_request **out)
{
    uint32_t i = take8() % 6;
    (void)l, (void)stop_fd, (void)deadline_ns;
    if (!f.left) return -ETIMEDOUT;
    memcpy(f.offer.data, &i, sizeof(i));
    f.offer.data_len = take8() % 8 ? 4 : take8() % 5;
    *out = (struct gw_request *)&f;
    return take8() % 16 ? 0 : -ETIMEDOUT;
}
const struct gw_offer *gw_cm_offer(const struct gw_request *r)
{
    (void)r;
    return &f.offer;
}
void gw_cm_refuse(struct gw_request *r, const char *why)
{
    (void)r, (void)why;
}
int gw_cm_accept(struct gw_request *r, struct gw_qp *qp, const struct gw_connect_opts *opts,
                 const struct gw_offer *mine, int stop_fd, uint64_t deadline_ns, struct gw_link **out)
{
    (void)r, (void)opts, (void)mine, (void)stop_fd, (void)deadline_ns;
    uint64_t i = (uint64_t)(uintptr_t)qp - 1;
    if (fails()) return -ECONNRESET;
    require(f.open && i < f.side->shape.qps && !f.linked[i]++);
    *out = (struct gw_link *)&f;
    return 0;
}

/* ---- the measuring side -------------------------------------------------------------------------------- */

int perf_side_open(struct perf_side *s, const struct perf_opts *o, const struct perf_shape *shape)
{
    require(!f.open && !perf_shape_wrong(shape) && o->depth);
    if (fails()) return gw_error(-ENOMEM, "no memory");
    memset(s, 0, sizeof(*s));
    s->shape = *shape;
    s->span = perf_span(shape);
    f.mr = (struct gw_mr){.addr = 1 << 20, .length = s->span * shape->qps};
    s->mr = &f.mr;
    s->qp = calloc(shape->qps, sizeof(*s->qp));
    s->recv_cq = calloc(shape->qps, sizeof(*s->recv_cq));
    s->link = calloc(shape->qps, sizeof(*s->link));
    f.linked = calloc(shape->qps, sizeof(*f.linked));
    for (uint32_t i = 0; i < shape->qps; i++) s->qp[i] = (struct gw_qp *)(uintptr_t)(i + 1);
    f.side = s;
    f.open = true;
    return 0;
}
void perf_side_close(struct perf_side *s)
{
    require(f.open && !f.running);
    free(s->qp);
    free(s->recv_cq);
    free(s->link);
    free(f.linked);
    f.open = false;
}
struct perf_place perf_side_place(const struct perf_side *s, uint64_t size)
{
    require(f.open && size && size <= s->shape.size);
    return perf_place_of(s->span, size);
}
int perf_side_aim(struct perf_side *s, const struct gw_endpoint *peer)
{
    (void)peer;
    require(f.open && s->shape.op == PERF_DATAGRAM && s->shape.qps == 1);
    return fails() ? gw_error(-ENOMEM, "no memory") : 0;
}
struct perf_lat_args perf_side_lat(struct perf_side *s, uint64_t size, uint32_t peer_qpn)
{
    struct perf_place at = perf_side_place(s, s->shape.size);
    (void)peer_qpn;
    return (struct perf_lat_args){.size = (uint32_t)size, .inbox = f.mr.addr + at.stride, .room = at.stride};
}
struct perf_lists perf_side_lists(const struct perf_side *s)
{
    (void)s;
    static uint64_t words[8]; /* nothing is kept there */
    return (struct perf_lists){.posted = words, .got = words};
}
void perf_tell_stop(struct perf_side *s, uint32_t stop)
{
    (void)s;
    f.told = stop;
}
int perf_side_sync(struct perf_side *s, uint64_t limit_ns)
{
    (void)s, (void)limit_ns;
    if (f.told) f.running = false;
    return fails() ? -EIO : 0;
}
int perf_side_fault(struct perf_side *s, int err)
{
    (void)s;
    return err;
}
int perf_fill(struct perf_side *s, const struct perf_place *at, struct perf_content what)
{
    (void)what;
    require((uint64_t)at->slots * at->stride <= at->span && at->span == s->span);
    return 0;
}
int perf_check(struct perf_side *s, const struct perf_place *at, const struct perf_written *w,
               struct perf_row *sum)
{
    (void)sum;
    require(w->used <= at->slots && w->size <= at->stride && (uint64_t)at->slots * at->stride <= s->span);
    return 0;
}
int perf_check_target(struct perf_side *s, const struct perf_place *at, uint32_t op, uint64_t used,
                      uint64_t swap, struct perf_row *sum)
{
    (void)op, (void)swap, (void)sum;
    require(used <= at->slots && (uint64_t)at->slots * at->stride <= s->span && at->stride >= 8);
    return 0;
}
int perf_sum(struct gw_exec *exec, const struct perf_out *dev, uint64_t n, struct perf_row *row)
{
    (void)exec, (void)dev, (void)row;
    require(n == f.side->shape.qps);
    return 0;
}
const char *perf_command(const struct perf_opts *o)
{
    (void)o;
    return "perf";
}

/* ---- the executor -------------------------------------------------------------------------------------- */

int gw_launch(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
              const void *arg)
{
    (void)exec, (void)grid, (void)block, (void)arg;
    require(f.open && !f.running && !f.told);
    for (uint32_t i = 0; f.side->shape.op != PERF_DATAGRAM && i < f.side->shape.qps; i++)
        require(f.linked[i] == 1 && f.side->link[i]);
    if (kernel == &perf_lat_kernel) {
        const struct perf_lat_args *a = arg;
        require(a->size <= a->room && a->inbox + a->room <= f.mr.addr + f.mr.length);
    }
    f.running = true;
    return 0;
}
int gw_copy_out(struct gw_exec *exec, void *host, const void *dev, size_t size)
{
    (void)exec, (void)dev;
    memset(host, 0, size);
    if (size == sizeof(uint64_t)) memcpy(host, &f.count, size);
    f.count++;
    return 0;
}
enum gw_exec_kind gw_exec_kind(const struct gw_exec *exec)
{
    (void)exec;
    return GW_EXEC_CPU;
}
const char *gw_exec_name(const struct gw_exec *exec)
{
    (void)exec;
    return "cpu";
}
void gw_qp_endpoint(const struct gw_qp *qp, struct gw_endpoint *ep)
{
    (void)qp;
    *ep = (struct gw_endpoint){0};
}
struct gw_qp_handle *gw_qp_handle(const struct gw_qp *qp)
{
    return (struct gw_qp_handle *)qp;
}
struct gw_cq_handle *gw_cq_handle(const struct gw_cq *cq)
{
    return (struct gw_cq_handle *)cq;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct perf_opts opts = {.exec = "cpu"};
    memset(&f, 0, sizeof(f));
    f.p = data;
    f.left = size;
    f.count = 1;
    (void)perf_serve(&opts, -1, NULL, NULL);
    require(!f.open && !f.running);
    return 0;
}
