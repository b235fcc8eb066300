/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c: the models of the repository: all at first, and later those that are new or have changed. A model
 * that has changed is another model of the same name. The old one stays until the controller drops it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/fleet/real/impl.h"
#include "src/model/graph/share.h"

/* Of a file, by what a change of it changes. */
static uint64_t stamp_of(const struct gw_repository_entry *e)
{
    struct stat st;
    uint64_t is[6] = {e->version};

    if (!stat(e->path, &st)) {
        is[1] = (uint64_t)st.st_ino;
        is[2] = (uint64_t)st.st_size;
        is[3] = (uint64_t)st.st_mtim.tv_sec;
        is[4] = (uint64_t)st.st_mtim.tv_nsec;
        is[5] = (uint64_t)st.st_dev;
    }
    struct gwm_key key = gwm_key_of(is, sizeof(is));
    gwm_key_more(&key, e->path, strlen(e->path));
    return key.a;
}

/* ---- the list ---- */

static void scan_list(struct real *r, const struct real_model *m)
{
    pthread_mutex_lock(&r->names);
    uint32_t at = r->listed++;
    for (; at && strcmp(r->model[r->by_name[at - 1]]->facts.name, m->facts.name) > 0; at--)
        r->by_name[at] = r->by_name[at - 1];
    r->by_name[at] = m->number;
    pthread_mutex_unlock(&r->names);
}

int real_scan_add(struct real *r, struct real_model *m)
{
    struct gw_many_model model = {.name = m->facts.name, .in = m->in, .out = m->out, .batches = m->batches};
    uint32_t number = 0;

    memcpy(model.batch, m->batch, m->batches * sizeof(model.batch[0]));
    pthread_mutex_lock(&r->host);
    int err = gw_many_add(r->many, &model, &number);
    pthread_mutex_unlock(&r->host);
    if (err) return err;
    m->number = m->facts.model = number; /* nothing else adds to the loop: it counts as this does */
    m->added = true;
    r->model[number] = m;
    scan_list(r, m);
    /* Release: a thread that sees the number sees the model. */
    __atomic_store_n(&r->models, number + 1, __ATOMIC_RELEASE);
    return 0;
}

/* ---- looking ---- */

static bool is_bad(const struct real *r, uint64_t stamp)
{
    const struct real_bad *b = r->bad;

    while (b && b->stamp != stamp) b = b->next;
    return b;
}

static bool scan_listed(const struct real *r, uint64_t stamp)
{
    for (uint32_t i = 0; i < r->models; i++)
        if (r->model[i]->stamp == stamp) return true;
    return false;
}

static void remember(struct real *r, uint64_t stamp)
{
    struct real_bad *b = (struct real_bad *)calloc(1, sizeof(*b));

    if (!b) return; /* it is tried again, and told again */
    *b = (struct real_bad){stamp, r->bad};
    r->bad = b;
}

/* Opens what is there; NULL: it cannot be served, and that was said. */
static struct real_model *scan_open(struct real *r, const struct gw_repository_entry *e)
{
    uint64_t stamp = stamp_of(e);
    struct real_model *m = NULL;

    if (real_model_open(r, e, &m)) {
        real_say(r, "model %s: not served: %s", e->name, gw_last_error());
        remember(r, stamp);
        return NULL;
    }
    m->stamp = stamp;
    return m;
}

int real_scan_open(struct real *r)
{
    struct gw_repository all;
    int err = gw_repository_scan(r->o.models, &all);

    if (err) return err;
    for (size_t i = 0; i < all.count && r->models < r->o.max_models; i++) {
        int64_t began = real_now();
        struct real_model *m = scan_open(r, &all.entry[i]);
        if (!m) continue;
        r->model[r->models++] = m;
        real_say(r, "model %s: planned and measured in %.1f s; %zu of %zu", all.entry[i].name,
                 (double)(real_now() - began) / 1e9, i + 1, all.count);
    }
    if (all.count > r->o.max_models)
        real_say(r, "%s: only the first %u models are served", r->o.models, r->o.max_models);
    gw_repository_free(&all);
    return r->models ? 0 : gw_error(-ENOENT, "%s: none of its models can be served", r->o.models);
}

static void scan_one(struct real *r, const struct gw_repository_entry *e)
{
    uint64_t stamp = stamp_of(e);

    if (scan_listed(r, stamp) || is_bad(r, stamp)) return;
    struct real_model *m = scan_open(r, e);
    if (!m) return;
    if (real_scan_add(r, m)) {
        real_say(r, "model %s: not served: %s", e->name, gw_last_error());
        remember(r, stamp);
        real_model_close(m);
        return;
    }
    real_say(r, "model %s: served from now on", e->name);
}

static void scan_again(struct fleet_job *j)
{
    struct real *r = (struct real *)((char *)j - offsetof(struct real, scan));
    struct gw_repository all;

    if (__atomic_load_n(&r->stopped, __ATOMIC_RELAXED)) return;
    if (!gw_repository_scan(r->o.models, &all)) {
        for (size_t i = 0; i < all.count && !__atomic_load_n(&r->stopped, __ATOMIC_RELAXED); i++)
            scan_one(r, &all.entry[i]);
        gw_repository_free(&all);
    }
    j->earliest_at = real_now() + r->o.scan_ns;
    fleet_lane_add(r->scans, j);
}

void real_scan_start(struct real *r)
{
    r->scan = (struct fleet_job){.run = scan_again, .earliest_at = real_now() + r->o.scan_ns};
    fleet_lane_add(r->scans, &r->scan);
}

void real_scan_close(struct real *r)
{
    for (uint32_t i = 0; i < r->models; i++) real_model_close(r->model[i]);
    r->models = 0;
    for (struct real_bad *b = r->bad, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}
