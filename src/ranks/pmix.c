/* SPDX-License-Identifier: Apache-2.0 */
/* Talks to the launcher through libpmix, which is loaded when a program asks for it: others do without. */
#include "src/ranks/pmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pmix.h>

#include <gpuwire/error.h>

#define KEY "gpuwire.rendezvous"

struct gw_ranks_pmix {
    pmix_proc_t self;
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **);
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence_nb)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, pmix_op_cbfunc_t,
                              void *);
    const char *(*error_string)(pmix_status_t);
};

/* A fence that may end after the call that began it: who is last frees it. */
struct pmix_fence {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pmix_status_t status;
    bool done, left;
};

static int pmix_load(struct gw_ranks_pmix *p)
{
    const struct {
        const char *name;
        void *at;
    } fn[] = {{"PMIx_Init", &p->init},
              {"PMIx_Finalize", &p->finalize},
              {"PMIx_Get", &p->get},
              {"PMIx_Put", &p->put},
              {"PMIx_Commit", &p->commit},
              {"PMIx_Fence_nb", &p->fence_nb},
              {"PMIx_Error_string", &p->error_string}};
    void *lib = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL); /* its plug-ins look for its symbols there */

    if (!lib) lib = dlopen(GW_PMIX_LIBDIR "/libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!lib) return gw_error(-ENOSYS, "PMIx: %s: install libpmix2", dlerror());
    for (size_t i = 0; i < sizeof(fn) / sizeof(fn[0]); i++) {
        void *symbol = dlsym(lib, fn[i].name);

        if (!symbol) return gw_error(-ENOSYS, "PMIx: libpmix.so.2 has no %s: it is too old", fn[i].name);
        memcpy(fn[i].at, &symbol,
               sizeof(symbol)); /* C has no conversion from an object's address to a function's */
    }
    return 0;
}

static int pmix_number(struct gw_ranks_pmix *p, const char *key, uint32_t *number)
{
    pmix_proc_t job = p->self;
    pmix_value_t *v = NULL;
    pmix_status_t st;

    job.rank = PMIX_RANK_WILDCARD;
    st = p->get(&job, key, NULL, 0, &v);
    if (st == PMIX_SUCCESS && v->type == PMIX_UINT32)
        *number = v->data.uint32;
    else
        st = st == PMIX_SUCCESS ? PMIX_ERR_NOT_FOUND : st;
    free(v); /* a number has nothing more to free */
    return st == PMIX_SUCCESS
               ? 0
               : gw_error(-EIO, "PMIx: the launcher does not tell %s: %s", key, p->error_string(st));
}

int gw_ranks_pmix_join(struct gw_ranks_place *place, struct gw_ranks_pmix **out)
{
    struct gw_ranks_pmix *p;
    pmix_status_t st;
    int err;

    if (!getenv("PMIX_NAMESPACE"))
        return gw_error(-ENOSYS, "no PMIx around this process: start it by mpirun or srun --mpi=pmix");
    p = calloc(1, sizeof(*p));
    err = p ? pmix_load(p) : -ENOMEM;
    if (!err && (st = p->init(&p->self, NULL, 0)) != PMIX_SUCCESS)
        err = gw_error(-ENOSYS, "PMIx: the launcher does not answer: %s", p->error_string(st));
    if (err) {
        free(p);
        return err;
    }
    place->rank = p->self.rank;
    place->local_size = 0; /* not every launcher tells */
    err = pmix_number(p, PMIX_JOB_SIZE, &place->size);
    if (!err && pmix_number(p, PMIX_LOCAL_SIZE, &place->local_size)) place->local_size = 0;
    if (err)
        gw_ranks_pmix_leave(p);
    else
        *out = p;
    return err;
}

static void fence_end(struct pmix_fence *f, bool by_caller)
{
    bool last;

    pthread_mutex_lock(&f->lock);
    if (by_caller)
        f->left = true;
    else
        f->done = true;
    last = f->done && f->left;
    pthread_cond_signal(&f->cond);
    pthread_mutex_unlock(&f->lock);
    if (!last) return;
    pthread_cond_destroy(&f->cond);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void fence_done(pmix_status_t status, void *data)
{
    struct pmix_fence *f = data;

    f->status = status; /* fence_end's lock publishes it */
    fence_end(f, false);
}

static struct pmix_fence *fence_new(void)
{
    struct pmix_fence *f = calloc(1, sizeof(*f));
    pthread_condattr_t attr;

    if (!f) return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->cond, &attr);
    pthread_condattr_destroy(&attr);
    return f;
}

/* Waits until all processes of the job have come here, with what they have put. */
static int pmix_fence(struct gw_ranks_pmix *p, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    struct pmix_fence *f = fence_new();
    pmix_info_t collect;
    pmix_status_t st;
    int err = 0;

    if (!f) return gw_error(-ENOMEM, "PMIx: no memory");
    memset(&collect, 0, sizeof(collect));
    strcpy(collect.key, PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    st = p->fence_nb(NULL, 0, &collect, 1, fence_done, f);
    if (st != PMIX_SUCCESS) {
        fence_done(st, f);
        fence_end(f, true);
        return gw_error(-EIO, "PMIx: fence: %s", p->error_string(st));
    }
    pthread_mutex_lock(&f->lock);
    while (!f->done && !err)
        err = pthread_cond_timedwait(&f->cond, &f->lock, &until) == ETIMEDOUT ? -ETIMEDOUT : 0;
    if (f->done) err = 0;
    st = f->done ? f->status : PMIX_SUCCESS;
    pthread_mutex_unlock(&f->lock);
    fence_end(f, true);
    if (err) return gw_error(err, "some processes of the job have not come to join");
    return st == PMIX_SUCCESS ? 0 : gw_error(-EIO, "PMIx: fence: %s", p->error_string(st));
}

int gw_ranks_pmix_share(struct gw_ranks_pmix *pmix, char *text, size_t size, uint64_t deadline_ns)
{
    pmix_value_t mine = {.type = PMIX_STRING, .data.string = text}, *theirs = NULL;
    pmix_proc_t first = pmix->self;
    pmix_status_t st = PMIX_SUCCESS;
    int err;

    if (!pmix->self.rank) {
        st = pmix->put(PMIX_GLOBAL, KEY, &mine);
        if (st == PMIX_SUCCESS) st = pmix->commit();
        if (st != PMIX_SUCCESS) return gw_error(-EIO, "PMIx: put: %s", pmix->error_string(st));
    }
    err = pmix_fence(pmix, deadline_ns);
    if (err || !pmix->self.rank) return err;
    first.rank = 0;
    st = pmix->get(&first, KEY, NULL, 0, &theirs); /* it is there: the fence brought it */
    if (st != PMIX_SUCCESS) return gw_error(-EIO, "PMIx: rank 0's address: %s", pmix->error_string(st));
    if (theirs->type != PMIX_STRING || strlen(theirs->data.string) >= size)
        err = gw_error(-EPROTO, "PMIx: rank 0 has published something else");
    else
        strcpy(text, theirs->data.string);
    if (theirs->type == PMIX_STRING) free(theirs->data.string);
    free(theirs);
    return err;
}

void gw_ranks_pmix_leave(struct gw_ranks_pmix *pmix)
{
    if (!pmix) return;
    pmix->finalize(NULL, 0);
    free(pmix); /* the library stays: its threads may still run */
}
