/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/server.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/serve/api.h"
#include "src/serve/httpd.h"
#include "src/serve/worker.h"

#define HOUSEKEEPING_NS 200000000u

struct gw_server {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_repository models;
    struct gw_api api; /* the workers and their open sessions */
    struct gw_httpd *httpd;
    char *text;
};

static int select_models(struct gw_server *s, const struct gw_server_opts *o)
{
    int error = gw_repository_scan(o->models, &s->models);
    if (error || !o->only) return error;
    for (size_t i = 0; i < s->models.count; i++)
        if (!strcmp(s->models.entry[i].name, o->only)) return 0;
    return gw_error(-ENOENT, "model repository %s: no model %s in it", o->models, o->only);
}

static int make_workers(struct gw_server *s, const struct gw_server_opts *o)
{
    struct gw_worker_opts opts = {s->exec, s->dev, o->sessions, o->slots, o->threads};
    s->api.worker = calloc(s->models.count, sizeof(*s->api.worker));
    if (!s->api.worker) return -ENOMEM;
    for (size_t i = 0; i < s->models.count; i++) {
        if (o->only && strcmp(s->models.entry[i].name, o->only)) continue;
        int error = gw_worker_create(&s->models.entry[i], &opts, &s->api.worker[s->api.workers]);
        if (error) return error;
        s->api.workers++;
    }
    for (size_t i = 0; i < s->api.workers; i++) {
        int error = gw_worker_start(s->api.worker[i]);
        if (error) return error;
    }
    return 0;
}

static int describe(struct gw_server *s)
{
    size_t size = 0;
    FILE *f = open_memstream(&s->text, &size);
    if (!f) return -ENOMEM;
    for (size_t i = 0; i < s->api.workers; i++)
        fprintf(f, "%s%s/%u", i ? ", " : "", gw_worker_name(s->api.worker[i]),
                gw_worker_version(s->api.worker[i]));
    struct gw_device_info nic;
    gw_device_query(s->dev, &nic);
    fprintf(f, " on %s over %s%s", gw_exec_name(s->exec), nic.name, nic.soft ? " (softnic)" : "");
    return fclose(f) ? -ENOMEM : 0;
}

int gw_server_start(const struct gw_server_opts *o, struct gw_server **out)
{
    struct gw_server *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    pthread_mutex_init(&s->api.lock, NULL);
    int error = select_models(s, o);
    struct gw_exec_opts exec_opts = {.device = o->gpu};
    if (!error) error = gw_exec_create(o->exec, &exec_opts, &s->exec);
    if (!error) error = gw_device_open(o->device, s->exec, &s->dev);
    s->api.dev = s->dev;
    if (!error && gw_exec_kind(s->exec) == GW_EXEC_CPU) gw_clock_name(s->api.clock);
    if (!error) error = make_workers(s, o);
    if (!error) error = describe(s);
    struct gw_httpd_handler handler = {&s->api, gw_api_call, gw_api_connection_closed};
    if (!error) error = gw_httpd_start(o->http_host, o->http_port, &handler, &s->httpd);
    if (error)
        gw_server_stop(s, NULL);
    else
        *out = s;
    return error;
}

uint16_t gw_server_port(const struct gw_server *s)
{
    return gw_httpd_port(s->httpd);
}
const char *gw_server_text(const struct gw_server *s)
{
    return s->text;
}

int gw_server_run(struct gw_server *s, const int *fds, uint32_t n)
{
    int watched[62];
    uint32_t count = 0;
    for (size_t i = 0; i < s->api.workers && count < 32; i++)
        watched[count++] = gw_worker_fd(s->api.worker[i]);
    uint64_t ours = (1ull << count) - 1;
    for (uint32_t i = 0; i < n && count < 62; i++) watched[count++] = fds[i];
    for (;;) {
        int64_t ready = gw_wait_fds(watched, count, gw_deadline(HOUSEKEEPING_NS));
        if (ready < 0 && ready != -EINTR) return (int)ready;
        if (ready > 0 && (uint64_t)ready & ours) {
            uint64_t ns;
            for (size_t i = 0; i < s->api.workers; i++) {
                int error = (uint64_t)ready >> i & 1 ? gw_worker_stop(s->api.worker[i], &ns) : 0;
                if (error)
                    return gw_error_errno(error, "model %s: serving ended", gw_worker_name(s->api.worker[i]));
            }
        }
        if (ready > 0 && (uint64_t)ready & ~ours) return 0;
        gw_api_tend(&s->api);
    }
}

void gw_server_stop(struct gw_server *s, uint64_t *stop_ns)
{
    uint64_t longest = 0;
    if (!s) return;
    for (size_t i = 0; i < s->api.workers; i++) gw_session_pool_shut(gw_worker_sessions(s->api.worker[i]));
    gw_httpd_stop(s->httpd); /* first: it closes the sessions while the loops still answer */
    for (size_t i = 0; i < s->api.workers; i++) gw_worker_stop_soon(s->api.worker[i]); /* all at once */
    for (size_t i = 0; i < s->api.workers; i++) {
        uint64_t ns = 0;
        gw_worker_stop(s->api.worker[i], &ns);
        if (ns > longest) longest = ns;
    }
    if (stop_ns) *stop_ns = longest;
    for (size_t i = 0; i < s->api.workers; i++) gw_worker_destroy(s->api.worker[i]);
    gw_api_free(&s->api);
    if (s->dev) gw_device_close(s->dev);
    gw_exec_destroy(s->exec);
    gw_repository_free(&s->models);
    free(s->text);
    free(s);
}
