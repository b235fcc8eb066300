/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: how long batches of a model take. What was measured is kept in a file: a worker that starts
 * again with the same models is there sooner. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/fleet/real/impl.h"

#define PROFILE_RUNS 24
#define PROFILE_NS   150000000 /* that one batch size may take, in all */

/* Measured with: whatever changes the times of the same file. */
static void profile_path(const struct real_model *m, char *out, size_t size)
{
    const struct fleet_real_opts *o = &m->real->o;
    char how[160];

    snprintf(how, sizeof(how), "%s; %u threads; up to %u", gw_exec_name(o->exec), o->threads, o->max_batch);
    struct gwm_key key = gwm_key_of(how, strlen(how));
    gwm_key_more(&key, m->facts.digest, sizeof(m->facts.digest));
    snprintf(out, size, "%s/%016" PRIx64 "%016" PRIx64 ".profile", o->folder, key.a, key.b);
}

/* True: the file has times for all batch sizes of the model. */
static bool profile_read(struct real_model *m, const char *path)
{
    struct fleet_has_model *f = &m->facts;
    FILE *in = fopen(path, "re");
    bool all = in && fscanf(in, "spread %" SCNd64, &f->spread_ns) == 1 && f->spread_ns >= 0;

    for (uint32_t i = 0; i < m->batches && all; i++)
        all = fscanf(in, " exec %" SCNd64, &f->exec_ns[i]) == 1 && f->exec_ns[i] > 0;
    if (in) fclose(in);
    return all;
}

/* Whether it can be kept is of no importance: the next start measures again. */
static void profile_write(const struct real_model *m, const char *path)
{
    char fresh[640];
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    FILE *out = fopen(fresh, "we");

    if (!out) return;
    fprintf(out, "spread %" PRId64 "\n", m->facts.spread_ns);
    for (uint32_t i = 0; i < m->batches; i++) fprintf(out, "exec %" PRId64 "\n", m->facts.exec_ns[i]);
    if (fclose(out) || rename(fresh, path)) unlink(fresh);
}

static int profile_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Runs a batch of zeros again and again: the slowest and the middle time. */
static int profile_runs(const struct real_model *m, uint32_t i, void *const in[], void *const out[],
                        int64_t *p99, int64_t *p50)
{
    int64_t took[PROFILE_RUNS], start = real_now();
    int n = 0, err = gw_plan_run(m->batch[i].plan, (const void *const *)in, out); /* the first is slower */

    do {
        int64_t began = real_now();
        if (!err) err = gw_plan_run(m->batch[i].plan, (const void *const *)in, out);
        took[n++] = real_now() - began;
    } while (!err && n < PROFILE_RUNS && real_now() - start < PROFILE_NS);
    qsort(took, (size_t)n, sizeof(took[0]), profile_compare);
    *p99 = took[n - 1] + 1;
    *p50 = took[n / 2] + 1;
    return err;
}

/* Tensors of that many rows, one after the other; freed by the caller at *memory. */
static int profile_tensors(const struct gw_layout *l, uint32_t rows, char **memory, void *at[])
{
    size_t bytes = gw_layout_offset(l, l->tensors, rows) + GW_SERVE_ALIGN;

    *memory = (char *)aligned_alloc(GW_SERVE_ALIGN, bytes / GW_SERVE_ALIGN * GW_SERVE_ALIGN);
    if (!*memory) return -ENOMEM;
    memset(*memory, 0, bytes / GW_SERVE_ALIGN * GW_SERVE_ALIGN);
    for (uint32_t k = 0; k < l->tensors; k++) at[k] = *memory + gw_layout_offset(l, k, rows);
    return 0;
}

static int profile_batch(struct real_model *m, uint32_t i)
{
    void *in[GW_MODEL_MAX_IO], *out[GW_MODEL_MAX_IO];
    char *from = NULL, *to = NULL;
    struct gw_plan_stats s;
    int64_t p99 = 0, p50 = 0;
    int err = profile_tensors(&m->in, m->batch[i].rows, &from, in);

    if (!err) err = profile_tensors(&m->out, m->batch[i].rows, &to, out);
    if (!err) err = profile_runs(m, i, in, out, &p99, &p50);
    free(from);
    free(to);
    gw_plan_stats(m->batch[i].plan, &s);
    /* On a GPU a run by hand has its copies, and a launch by the CPU. */
    m->facts.exec_ns[i] = s.run_ns ? (int64_t)s.run_ns : p99;
    m->facts.spread_ns = s.run_ns ? 0 : p99 - p50;
    return err;
}

int real_measure(struct real_model *m)
{
    char path[600];
    int err = 0;

    profile_path(m, path, sizeof(path));
    if (profile_read(m, path)) return 0;
    for (uint32_t i = 0; i < m->batches && !err; i++) err = profile_batch(m, i);
    if (!err) profile_write(m, path);
    return err ? gw_error(err, "a run with zeros failed: %s", strerror(-err)) : 0;
}
