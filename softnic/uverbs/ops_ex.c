/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended interfaces, ibv_wr_start … ibv_wr_complete and ibv_start_poll …, are function pointers in the
 * QP and the CQ themselves. libmlx5 fills them in before it asks for the object. The request names the
 * object's address (user_handle), so that is where ours are put in front.
 *
 * libmlx5 has one start_poll for each combination of locking, stalling and time stamps, and the CQ has no
 * room to say which it had. So there is a wrapper for each that was ever seen, with the same few lines in it.
 *
 * It writes wr_complete again with every change of state, but never wr_start, and a post begins with that. So
 * wr_start puts our wr_complete in place, in the thread that will call it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "softnic/mem/usercopy.h"
#include "softnic/runtime/process.h"
#include "softnic/uverbs/object.h"

typedef int start_poll_fn(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
typedef int complete_fn(struct ibv_qp_ex *);
typedef void start_fn(struct ibv_qp_ex *);

enum {
    POLLS = 16,
    COMPLETES = 2
}; /* libmlx5: 12 for our completion format; one that posts, one that refuses */

/* Written under `lock`, each once, before anything points to its wrapper. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static start_poll_fn *real_poll[POLLS];
static complete_fn *real_complete[COMPLETES];
static start_fn *real_start;

/* ---- polling ---- */

static int poll_by(start_poll_fn *real, struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    struct sn_nic *nic = uv_driven(cq->context);
    if (!nic) return EIO;
    int err = real(cq, attr);
    if (err != ENOENT) return err;
    sn_process_nic_drive(nic);
    return real(cq, attr);
}

/* clang-format off */
#define EACH_POLL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define POLL(n)                                                                                              \
    static int poll_##n(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)                                 \
    {                                                                                                        \
        return poll_by(real_poll[n], cq, attr);                                                              \
    }
EACH_POLL(POLL)
#define NAME(n) poll_##n,
static start_poll_fn *const our_poll[POLLS] = {EACH_POLL(NAME)};
/* clang-format on */

/* ---- posting ---- */

static int complete_by(complete_fn *real, struct ibv_qp_ex *qp)
{
    struct sn_nic *nic = uv_driven(qp->qp_base.context);
    if (!nic) {
        qp->wr_abort(qp);
        return EIO;
    }
    int err = real(qp);
    if (err) sn_qp_post_refused(nic, qp->qp_base.qp_num);
    sn_process_nic_posted(nic);
    return err;
}

static int complete_0(struct ibv_qp_ex *qp)
{
    return complete_by(real_complete[0], qp);
}

static int complete_1(struct ibv_qp_ex *qp)
{
    return complete_by(real_complete[1], qp);
}

static complete_fn *const our_complete[COMPLETES] = {complete_0, complete_1};

/* The wrapper of `real`, or `real` itself when there are no more wrappers. */
static complete_fn *complete_for(complete_fn *real)
{
    complete_fn *found = real;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < COMPLETES && found == real; i++) {
        if (!real_complete[i]) real_complete[i] = real;
        if (real_complete[i] == real) found = our_complete[i];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void uv_ops_start(struct ibv_qp_ex *qp)
{
    real_start(qp); /* takes the queue's lock: the rest has one thread at a time */
    complete_fn *now = qp->wr_complete;
    if (now != complete_0 && now != complete_1) qp->wr_complete = complete_for(now);
}

/* ---- putting them in ---- */

/* Is it a function of the library that `other` is of? Programs that speak the ABI themselves may say anything
 * for an object's address. */
static bool same_library(const void *function, const void *other)
{
    Dl_info a, b;

    return function && dladdr(function, &a) && dladdr(other, &b) && a.dli_fbase == b.dli_fbase;
}

static const void *uv_ops_address_of(void (*function)(void))
{
    return (const void *)(uintptr_t)function;
}

void uv_wrap_cq(uint64_t user_handle)
{
    const uint64_t at = user_handle + offsetof(struct ibv_cq_ex, start_poll);
    start_poll_fn *real, *ours = NULL;

    if (!uv_real_ops() || uv_copy_in(&real, at, sizeof(real))) return;
    if (!same_library(uv_ops_address_of((void (*)(void))real), uv_real_ops())) return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < POLLS && !ours; i++) {
        if (!real_poll[i]) real_poll[i] = real;
        if (real_poll[i] == real) ours = our_poll[i];
    }
    pthread_mutex_unlock(&lock);
    if (ours) uv_copy_out(at, &ours, sizeof(ours));
}

void uv_wrap_qp(uint64_t user_handle)
{
    const uint64_t at = user_handle + offsetof(struct ibv_qp_ex, wr_start);
    start_fn *real, *ours = uv_ops_start;

    if (!uv_real_ops() || uv_copy_in(&real, at, sizeof(real))) return;
    if (!same_library(uv_ops_address_of((void (*)(void))real), uv_real_ops())) return;
    pthread_mutex_lock(&lock);
    if (!real_start) real_start = real;
    bool known = real_start == real;
    pthread_mutex_unlock(&lock);
    if (known) uv_copy_out(at, &ours, sizeof(ours));
}
