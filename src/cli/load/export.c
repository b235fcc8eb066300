/* SPDX-License-Identifier: Apache-2.0 */
/* The results, for programs: one row, or object, for each level. Times are microseconds. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/cli/load/load.h"

static const struct {
    const char *name;
    double percent;
} percents[] = {{"p50_us", 50}, {"p90_us", 90},     {"p95_us", 95},
                {"p99_us", 99}, {"p99.9_us", 99.9}, {"max_us", 100}};
#define PERCENTS 6
static const char *const parts[] = {"net_in_us", "wait_us", "model_us", "post_us", "net_out_us", "mean_us"};

/* The mean time of a request in the server, by its own statistics. */
static double server_us(const struct gw_level *v, uint64_t ns)
{
    return v->has_server && v->server.success ? (double)ns / (double)v->server.success / 1e3 : 0;
}

static json_t *level_json(const struct gw_load *l, const struct gw_level *v)
{
    const struct gw_histogram *total = &v->latency->part[GW_TOTAL];
    double rate = v->seconds > 0 ? (double)total->count / v->seconds : 0;
    json_t *o =
        json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:f}", "level", v->value, "requests_per_s", rate,
                  "samples_per_s", rate * l->rows, "answered", (json_int_t)total->count, "late",
                  (json_int_t)v->late, "failed", (json_int_t)v->failed, "wrong", (json_int_t)v->wrong,
                  "seconds", v->seconds, "behind_ms", v->behind_ms);
    if (gw_load_is_fleet(l)) {
        json_object_set_new(o, "within", json_integer((json_int_t)v->within));
        json_object_set_new(o, "refused", json_integer((json_int_t)v->refused));
        json_object_set_new(o, "lost", json_integer((json_int_t)v->lost));
    }
    json_object_set_new(o, "steady", v->stable < 0 ? json_null() : json_boolean(v->stable));
    for (int i = 0; i < PERCENTS; i++)
        json_object_set_new(o, percents[i].name,
                            json_real((double)gw_histogram_percentile(total, percents[i].percent) / 1e3));
    for (int i = 0; i < GW_LATENCY_PARTS; i++)
        json_object_set_new(o, parts[i], json_real(gw_histogram_mean(&v->latency->part[i]) / 1e3));
    json_object_set_new(o, "server_queue_us", json_real(server_us(v, v->server.queue_ns)));
    json_object_set_new(o, "server_input_us", json_real(server_us(v, v->server.input_ns)));
    json_object_set_new(o, "server_infer_us", json_real(server_us(v, v->server.infer_ns)));
    json_object_set_new(o, "server_output_us", json_real(server_us(v, v->server.output_ns)));
    return o;
}

static json_t *batches_json(const struct gw_level *v)
{
    json_t *o = json_object();
    char size[16];
    for (uint32_t i = 1; i < GW_LOAD_BATCHES; i++) {
        if (!v->batch[i]) continue;
        snprintf(size, sizeof(size), "%u", i);
        json_object_set_new(o, size, json_integer((json_int_t)v->batch[i]));
    }
    return o;
}

static const char *mode_name(const struct gw_load *l)
{
    return l->o.mode == GW_LOAD_RATE ? "rate" : l->o.mode == GW_LOAD_CONCURRENCY ? "concurrency" : "requests";
}

static int load_export_close_file(FILE *f, const char *path)
{
    int failed = ferror(f);
    if (fclose(f) || failed) return gw_error_errno(errno ? -errno : -EIO, "%s", path);
    return 0;
}

int gw_export_json(const struct gw_load *l, const char *path)
{
    json_t *levels = json_array();
    for (uint32_t i = 0; i < l->levels; i++) {
        json_t *o = level_json(l, &l->level[i]);
        json_object_set_new(o, "requests_by_batch_size", batches_json(&l->level[i]));
        json_array_append_new(levels, o);
    }
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "model", l->o.client.model, "server",
                            l->o.client.server, "door", gw_client_door(l->client[0].c), "mode", mode_name(l),
                            "rows", (json_int_t)l->rows, "clients", (json_int_t)l->clients, "seed",
                            (json_int_t)l->o.seed, "levels", levels);
    FILE *f = fopen(path, "we");
    if (!f || !all) {
        int err = f ? -ENOMEM : -errno;
        if (f) fclose(f);
        json_decref(all);
        return gw_error_errno(err, "%s", path);
    }
    json_dumpf(all, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', f);
    json_decref(all);
    return load_export_close_file(f, path);
}

/* The columns are the objects' keys, in their order. */
int gw_export_csv(const struct gw_load *l, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f) return gw_error_errno(-errno, "%s", path);
    for (uint32_t i = 0; i < l->levels; i++) {
        json_t *o = level_json(l, &l->level[i]), *value;
        const char *key;
        if (!i) {
            fprintf(f, "mode");
            json_object_foreach(o, key, value) fprintf(f, ",%s", key);
            fputc('\n', f);
        }
        fprintf(f, "%s", mode_name(l));
        json_object_foreach(o, key, value)
        {
            if (json_is_boolean(value) || json_is_null(value))
                fprintf(f, ",%s", json_is_null(value) ? "" : json_is_true(value) ? "1" : "0");
            else
                fprintf(f, ",%.9g", json_number_value(value));
        }
        fputc('\n', f);
        json_decref(o);
    }
    return load_export_close_file(f, path);
}
