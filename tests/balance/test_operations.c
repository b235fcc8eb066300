/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on a whole balancer, beside a simple model of what must be served. The operations are
 * reloads, calls of the API, workers' answers to checks, and deaths of either plane. A plane may die before a
 * change has reached the data plane. After each, both planes must have what the model has. The control plane
 * shows it, and a new connection gets a worker that may have it, or none where there is none.
 *
 *     test_balance_operations [SECONDS [SEED]]
 *
 * Both planes run here; between them are their own socket and messages. A failure prints its seed and the
 * last operations.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/choose.h"
#include "src/balance/core.h"
#include "src/balance/control/agent.h"
#include "src/balance/control/api.h"
#include "src/balance/control/exchange.h"
#include "src/balance/control/health.h"
#include "src/balance/control/json.h"
#include "src/balance/control/probe.h"
#include "src/balance/control/probe_impl.h"
#include "tests/rnd.h"

/* Service v is at 10.0.0.(100 + v), but the last one at the balancer's own address. Worker a is at
 * 10.0.0.(20 + a), but the last two at the balancer's own address and at that of service 1. */
enum { VIPS = 6, OWN_VIP = VIPS - 1, ADDRS = 9, OWN = 7, AT_VIP = 8, NAMES = 6, PORTS = 2, LOG = 30 };
static const uint16_t ports[PORTS] = {80, 8080};

/* ---- the model: each worker has a place of its own, by its address and port ---- */

struct a_worker {
    uint8_t used, of_file, drain, file_drain, leave, up, weight;
    int name; /* -1: another one, which it got when it left */
};
struct a_service {
    uint8_t used, of_file, nat, checked, hashed;
    int name;
    struct a_worker worker[ADDRS][PORTS];
};
struct a_model {
    struct a_service service[VIPS];
};

#define EACH_WORKER(a, p)                                                                                    \
    for (int a = 0; a < ADDRS; a++)                                                                          \
        for (int p = 0; p < PORTS; p++)

static struct {
    struct rnd rnd;
    uint64_t seed, operations, refused, deaths;
    struct a_model now, told;       /* as it is; as the data plane has it */
    struct a_model file, told_file; /* what was read last */
    int plane_knows;                /* the data plane has a state */
    struct gw_bal_global global;
    struct gw_bal_core core;
    struct gw_bal_exchange *exchange;
    struct bal *bal;
    struct bal_core *cpu;
    struct gw_bal_agent *agent;
    char log[LOG][160];
} f;

static void fail(int line, const char *what)
{
    fprintf(stderr, "%s:%d: after %llu operations: %s does not hold; %s\n", __FILE__, line,
            (unsigned long long)f.operations, what, gw_last_error());
    for (uint64_t i = f.operations > LOG ? f.operations - LOG : 0; i < f.operations; i++)
        fprintf(stderr, "  %s\n", f.log[i % LOG]);
    fprintf(stderr, "seed %llu\n", (unsigned long long)f.seed);
    exit(1);
}
#define require(ok) ((ok) ? (void)0 : fail(__LINE__, #ok))

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f.log[f.operations++ % LOG], sizeof(f.log[0]), format, args);
    va_end(args);
}

static uint32_t below(uint32_t n)
{
    return rnd_below(&f.rnd, n);
}

static int worker_runs(const struct a_model *m, int v, int a, int p)
{
    if (a == OWN || (a == AT_VIP && m->service[1].used)) return 0;
    return m->service[v].nat || !p;
}

static int service_runs(const struct a_model *m, int v)
{
    const struct a_service *s = &m->service[v];
    int names[NAMES] = {0};
    if (v == OWN_VIP) return 0;
    for (int o = 0; o < VIPS; o++)
        if (o != v && m->service[o].used && m->service[o].name == s->name) return 0;
    EACH_WORKER(a, p)
    {
        const struct a_worker *w = &s->worker[a][p];
        if (!w->used) continue;
        if (!worker_runs(m, v, a, p) || (w->name >= 0 && names[w->name]++)) return 0;
    }
    return 1;
}

static int all_runs(const struct a_model *m)
{
    for (int v = 0; v < VIPS; v++)
        if (m->service[v].used && !service_runs(m, v)) return 0;
    return 1;
}

static int may_have_new(const struct a_worker *w)
{
    return w->used && w->up && !w->drain && !w->leave && w->weight;
}

/* ---- a file ---- */

static void random_file(struct a_model *m)
{
    memset(m, 0, sizeof(*m));
    for (int v = 0; v < VIPS; v++) {
        struct a_service *s = &m->service[v];
        if (v == OWN_VIP ? below(20) : below(3) == 0) continue;
        *s = (struct a_service){.used = 1, .nat = below(3) > 0, .checked = below(2), .hashed = below(2)};
        s->name = (int)(below(6) ? (uint32_t)v : below(NAMES));
        for (int n = 0; n < 4; n++) {
            int a = (int)(below(15) ? below(OWN) : below(ADDRS)), p = (int)(below(4) ? 0 : below(PORTS));
            struct a_worker *w = &s->worker[a][p];
            if (w->used) continue;
            *w = (struct a_worker){.used = 1, .weight = (uint8_t)below(4), .file_drain = !below(6)};
            w->name = (int)(below(8) ? (uint32_t)n : below(NAMES));
        }
    }
}

/* One thing in it is other than before, as an editor leaves it. */
static void edit_file(struct a_model *m)
{
    for (int i = 0; i < 3 * VIPS; i++) {
        struct a_service *s = &m->service[below(VIPS)];
        struct a_worker *w = &s->worker[below(ADDRS)][below(PORTS)];
        if (!s->used) continue;
        switch (below(8)) {
        case 0: s->name = (int)below(NAMES); return;
        case 1: s->hashed ^= 1; return;
        case 2: s->checked ^= 1; return;
        case 3: s->nat ^= 1; return;
        }
        if (!w->used) continue;
        switch (below(4)) {
        case 0: w->name = (int)below(NAMES); return;
        case 1: w->weight = (uint8_t)below(4); return;
        case 2: w->file_drain ^= 1; return;
        default: w->used = 0; return;
        }
    }
}

static void write_file(const struct a_model *m, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "# %llu\ninterface eth0 {\n address 10.0.0.5/24\n}\n",
                                (unsigned long long)f.operations);
    for (int v = 0; v < VIPS; v++) {
        const struct a_service *s = &m->service[v];
        if (!s->used) continue;
        n += (size_t)snprintf(
            text + n, size - n, "virtual_server 10.0.0.%d 80 {\n name s%d\n lb_algo %s\n lb_kind %s\n %s\n",
            v == OWN_VIP ? 5 : 100 + v, s->name, s->hashed ? "mh" : "rr", s->nat ? "NAT" : "DR",
            s->checked ? "HTTP_GET {\n rise 1\n fall 1\n url {\n path /\n }\n }" : "NO_CHECK");
        EACH_WORKER(a, p)
        {
            const struct a_worker *w = &s->worker[a][p];
            int last = a == OWN ? 5 : a == AT_VIP ? 101 : 20 + a;
            if (w->used)
                n += (size_t)snprintf(text + n, size - n,
                                      " real_server 10.0.0.%d %u {\n name w%d\n weight %u\n%s }\n", last,
                                      ports[p], w->name, w->weight, w->file_drain ? " drain\n" : "");
        }
        n += (size_t)snprintf(text + n, size - n, "}\n");
    }
    require(n + 1 < size);
}

static void load_worker(struct a_service *mine, struct a_worker *w, const struct a_worker *wanted)
{
    int drain = w->used && w->file_drain == wanted->file_drain ? w->drain : wanted->file_drain;
    uint8_t up = w->used && w->up ? 1 : !mine->checked;
    *w = *wanted;
    w->of_file = 1;
    w->drain = (uint8_t)drain;
    w->up = up;
}

/* Workers that leave give up their names. They go if the service's new way to forward has no place for them.
 */
static void load_leaving(struct a_service *mine)
{
    EACH_WORKER(a, p)
    {
        struct a_worker *w = &mine->worker[a][p];
        if (!w->used || !w->leave) continue;
        if (p && !mine->nat) {
            w->used = 0;
            continue;
        }
        EACH_WORKER(b, q)
        {
            const struct a_worker *o = &mine->worker[b][q];
            if (o != w && o->used && o->name == w->name) w->name = -1;
        }
    }
}

/* The model after a reload. */
static struct a_model loaded(struct a_model m, const struct a_model *file)
{
    for (int v = 0; v < VIPS; v++) {
        struct a_service *mine = &m.service[v];
        const struct a_service *wanted = &file->service[v];
        if (mine->used && mine->of_file && !wanted->used) *mine = (struct a_service){0};
        if (!wanted->used) continue;
        mine->used = mine->of_file = 1;
        mine->name = wanted->name;
        mine->nat = wanted->nat;
        mine->hashed = wanted->hashed;
        mine->checked = wanted->checked;
        EACH_WORKER(a, p)
        {
            struct a_worker *w = &mine->worker[a][p];
            if (wanted->worker[a][p].used)
                load_worker(mine, w, &wanted->worker[a][p]);
            else if (w->used && w->of_file)
                w->leave = 1;
            if (w->used && !mine->checked) w->up = 1;
        }
        load_leaving(mine);
    }
    return m;
}

/* ---- both planes ---- */

static void nothing(void *ctx)
{
    (void)ctx;
}

static void begin_plane(void)
{
    const struct bal_attr attr = {.cores = 1, .flows = 1024, .wide_flows = 1024};
    require(!bal_create(&attr, &f.bal));
    f.cpu = bal_core_begin(f.bal, 0);
    require(!gw_bal_agent_start(f.bal, &f.global, nothing, NULL, &f.agent));
}

static void end_plane(void)
{
    gw_bal_agent_stop(f.agent);
    bal_core_end(f.cpu);
    bal_destroy(f.bal);
}

static void attach(void)
{
    gw_bal_link_close(&f.exchange->link);
    require(!gw_bal_link_open(&f.exchange->link, f.global.run_dir));
    f.exchange->applied = f.exchange->settled = 0;
    f.exchange->have = 0;
}

static void begin_control(void)
{
    require(!gw_bal_core_init(&f.core));
    f.core.global = f.core.model.global = &f.global;
    f.exchange = calloc(1, sizeof(*f.exchange));
    require(f.exchange != NULL);
    f.exchange->link.fd = -1;
    attach();
}

static void end_control(void)
{
    gw_bal_link_close(&f.exchange->link);
    free(f.exchange);
    gw_bal_core_free(&f.core);
}

static void push(void)
{
    require(!gw_bal_exchange_push(f.exchange, &f.core));
    require(!f.core.refused[0]);
    bal_core_look(f.cpu, gw_deadline(0));
    f.told = f.now;
    f.told_file = f.file;
    f.plane_knows = 1;
}

/* ---- what both planes must have ---- */

static struct gw_bal_addr addr_of(int last)
{
    return (struct gw_bal_addr){.family = 4, .bytes = {10, 0, 0, (uint8_t)last}};
}

static struct gw_bal_worker *worker_there(const struct gw_bal_service *s, int a, int p)
{
    struct gw_bal_addr addr = addr_of(a == OWN ? 5 : a == AT_VIP ? 101 : 20 + a);
    return gw_bal_worker_at(&f.core.model, s, &addr, ports[p]);
}

static struct gw_bal_service *service_there(int v)
{
    struct gw_bal_service like = {.port = 80, .addr = addr_of(v == OWN_VIP ? 5 : 100 + v)};
    return gw_bal_service_at(&f.core.model, &like);
}

static void look_at_worker(const struct a_worker *w, const struct gw_bal_worker *there)
{
    enum gw_bal_state state = gw_bal_state_of(there);
    require(there->drain == w->drain && there->leave == w->leave && there->weight == w->weight);
    require(!there->refused[0] && there->health.up == w->up);
    require((state == GW_BAL_UP) == (w->up && !w->drain && !w->leave));
    require((state == GW_BAL_DOWN) == !w->up);
    if (w->name < 0) return;
    require(there->name[0] == 'w' && atoi(there->name + 1) == w->name);
}

/* Connections that begin now go to those that may have them; those that are there stay where they are. */
static void look_at_plane(const struct a_service *s, const struct gw_bal_service *there)
{
    const struct bal_snapshot *snap = f.cpu->snap;
    int choices = 0;
    EACH_WORKER(a, p)
    {
        const struct a_worker *w = &s->worker[a][p];
        if (!w->used) continue;
        choices += may_have_new(w);
        require(bal_keeps(snap, (uint16_t)worker_there(there, a, p)->id, there->id) == w->up);
    }
    for (int i = 0; i < 8; i++) {
        uint16_t chosen = bal_choose(f.cpu, there->id, below(BAL_MAGLEV));
        require((chosen == BAL_NO_WORKER) == !choices);
        int good = 0;
        EACH_WORKER(a, p)
        {
            const struct gw_bal_worker *w = s->worker[a][p].used ? worker_there(there, a, p) : NULL;
            good |= w && w->id == chosen && may_have_new(&s->worker[a][p]);
        }
        require(good || !choices);
    }
}

static void look_at_all(void)
{
    unsigned services = 0, workers = 0;
    for (int v = 0; v < VIPS; v++) {
        const struct a_service *s = &f.now.service[v];
        struct gw_bal_service *there = service_there(v);
        uint8_t addr[4] = {10, 0, 0, (uint8_t)(v == OWN_VIP ? 5 : 100 + v)};
        int number = bal_find_vip(f.cpu->snap, BAL_TCP, addr, false, 80);
        require(!there == !s->used && (number >= 0) == s->used);
        if (!s->used) continue;
        require(number == (int)there->id && !there->refused[0] && atoi(there->name + 1) == s->name);
        services++;
        EACH_WORKER(a, p)
        {
            struct gw_bal_worker *w = worker_there(there, a, p);
            require(!w == !s->worker[a][p].used);
            if (w) look_at_worker(&s->worker[a][p], w);
            workers += w != NULL;
        }
        look_at_plane(s, there);
    }
    for (const struct gw_bal_service *s = f.core.model.services; s; s = s->next) {
        services--;
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) workers--;
    }
    require(!services && !workers);
}

/* ---- operations ---- */

/* Does it, and requires that it succeeds or fails as the model says. */
static void call(const char *method, const char *path, const char *body, int works)
{
    json_t *reply = NULL, *j = body ? json_loads(body, 0, NULL) : NULL;
    note("%s %s %s%s", method, path, body ? body : "", works ? "" : " (refused)");
    unsigned status = gw_bal_api_call(&f.core, method, path, j, &reply);
    if (!works != (status >= 400 && status < 500)) {
        fprintf(stderr, "status %u: %s\n", status, json_string_value(json_object_get(reply, "error")));
        fail(__LINE__, works ? "it works" : "it is refused with 4xx");
    }
    f.refused += !works;
    json_decref(reply);
    json_decref(j);
}

static void add_service(int v)
{
    char body[300];
    struct a_model next = f.now;
    struct a_service s = {.used = 1, .nat = below(2), .checked = below(2), .hashed = below(2)};
    s.name = (int)(below(3) ? (uint32_t)v : below(NAMES));
    int there = next.service[v].used;
    if (!there) next.service[v] = s;
    snprintf(
        body, sizeof(body),
        "{\"name\": \"s%d\", \"address\": \"10.0.0.%d\", \"port\": 80, \"forward\": \"%s\", \"scheduler\": "
        "\"%s\", \"check\": {\"kind\": \"%s\", \"rise\": 1, \"fall\": 1}}",
        s.name, v == OWN_VIP ? 5 : 100 + v, s.nat ? "NAT" : "DR", s.hashed ? "mh" : "rr",
        s.checked ? "http" : "none");
    int works = !there && all_runs(&next);
    call("POST", "/v1/services", body, works);
    if (works) f.now = next;
}

static void change_service(int v)
{
    char path[64], body[200];
    struct a_model next = f.now;
    struct a_service *s = &next.service[v];
    snprintf(path, sizeof(path), "/v1/services/s%d", s->name);
    if (!below(6)) {
        call("DELETE", path, NULL, 1);
        f.now.service[v] = (struct a_service){0};
        return;
    }
    s->nat = below(2);
    s->checked = below(2);
    snprintf(body, sizeof(body),
             "{\"forward\": \"%s\", \"scheduler\": \"%s\", \"check\": {\"kind\": \"%s\", \"rise\": 1, "
             "\"fall\": 1}}",
             s->nat ? "NAT" : "DR", below(2) ? "mh" : "wlc", s->checked ? "http" : "none");
    EACH_WORKER(a, p) if (!s->checked) s->worker[a][p].up = 1;
    int works = all_runs(&next);
    call("PATCH", path, body, works);
    if (works) f.now = next;
}

static void add_worker(int v)
{
    char path[96], body[200];
    int a = (int)below(ADDRS), p = (int)below(PORTS), name = (int)below(NAMES), by_itself = !below(4);
    struct a_model next = f.now;
    struct a_service *s = &next.service[v];
    struct a_worker *w = &s->worker[a][p];
    int there = w->used, named = 0;
    EACH_WORKER(b, q) named |= s->worker[b][q].used && s->worker[b][q].name == name;
    if (by_itself && named) return; /* it would only be heard of again */
    if (!there)
        *w = (struct a_worker){.used = 1, .name = name, .weight = (uint8_t)below(4), .up = !s->checked};
    snprintf(body, sizeof(body), "{\"address\": \"10.0.0.%d\", \"port\": %u, \"weight\": %u%s}",
             a == OWN      ? 5
             : a == AT_VIP ? 101
                           : 20 + a,
             ports[p], w->weight, by_itself ? ", \"beat_ms\": 3600000" : "");
    if (by_itself)
        snprintf(path, sizeof(path), "/v1/services/10.0.0.%d:80/tcp/workers/w%d", 100 + v, name);
    else
        snprintf(path, sizeof(path), "/v1/services/s%d/workers", s->name);
    if (!by_itself) snprintf(body + strlen(body) - 1, 32, ", \"name\": \"w%d\"}", name);
    int works = !there && all_runs(&next);
    call(by_itself ? "PUT" : "POST", path, body, works);
    if (works) f.now = next;
}

static void change_worker(int v, int a, int p)
{
    char path[96], body[64] = "";
    struct a_service *s = &f.now.service[v];
    struct a_worker *w = &s->worker[a][p];
    uint32_t what = below(5);
    snprintf(path, sizeof(path), "/v1/services/s%d/workers/10.0.0.%d:%u", s->name, a == AT_VIP ? 101 : 20 + a,
             ports[p]);
    if (what == 0) {
        w->weight = (uint8_t)below(4);
        snprintf(body, sizeof(body), "{\"weight\": %u}", w->weight);
    } else if (what < 3) {
        w->drain = what == 1;
        w->leave = 0;
        snprintf(body, sizeof(body), "{\"state\": \"%s\"}", w->drain ? "draining" : "up");
    } else if (what == 3) {
        w->leave = 1;
    } else {
        w->used = 0;
        snprintf(body, sizeof(body), "{\"now\": true}");
    }
    call(what < 3 ? "PATCH" : "DELETE", path, body[0] ? body : NULL, 1);
}

/* A worker answers its check, with a status line of a server or with anything. */
static void answer_check(int v, int a, int p)
{
    char line[64] = "HTTP/1.1 ", why[128] = "";
    struct a_service *s = &f.now.service[v];
    struct gw_bal_worker *w = worker_there(service_there(v), a, p);
    unsigned n = 20;
    if (!s->checked) return;
    rnd_bytes(&f.rnd, line + 9, 40);
    if (below(2)) n = (unsigned)snprintf(line, sizeof(line), "HTTP/1.1 %u OK\r\n", 200 + below(2) * 300);
    int good = gw_bal_http_status(line, n, 0, why, sizeof(why)) > 0;
    note("%s %d.%d answers its check %s", w->name, v, a, good ? "well" : "badly");
    gw_bal_health_done(&f.core.model, w->service, w, good ? NULL : why, gw_deadline(0));
    s->worker[a][p].up = (uint8_t)good;
}

static int take_file(const struct a_model *file, struct gw_bal_config *c)
{
    char text[16384];
    write_file(file, text, sizeof(text));
    char *mine = strdup(text);
    int error = gw_bal_config_parse("file", mine, c);
    free(mine);
    if ((error == 0) != all_runs(file)) fprintf(stderr, "%s", text);
    require((error == 0) == all_runs(file));
    if (error) gw_bal_config_free(c);
    return error;
}

/* The model as JSON, without what time alone changes. */
static json_t *lasting_json(void)
{
    static const char *const ages[] = {"state_ms", "last_ms", "next_ms", "age_ms"};
    json_t *model = gw_bal_model_json(&f.core.model), *service, *worker;
    size_t i, k;
    json_array_foreach(json_object_get(model, "services"), i, service)
    {
        json_array_foreach(json_object_get(service, "workers"), k, worker)
        {
            json_object_del(worker, "drain_left_ms");
            for (size_t n = 0; n < sizeof(ages) / sizeof(ages[0]); n++) {
                json_object_del(json_object_get(worker, "health"), ages[n]);
                json_object_del(json_object_get(worker, "telemetry"), ages[n]);
            }
        }
    }
    return model;
}

static void reload(void)
{
    struct a_model file, next;
    struct gw_bal_config c;
    file = f.file;
    if (below(2))
        edit_file(&file);
    else
        random_file(&file);
    if (take_file(&file, &c)) {
        note("a file that cannot run is refused");
        f.refused++;
        return;
    }
    next = loaded(f.now, &file);
    int works = all_runs(&next);
    note("a reload%s", works ? "" : " beside which something else cannot run");
    json_t *before = lasting_json();
    int error = gw_bal_reconcile(&f.core.model, &c.model);
    require((error == 0) == works);
    json_t *after = lasting_json();
    require(works || json_equal(before, after));
    json_decref(before);
    json_decref(after);
    if (works) f.now = next;
    if (works) f.file = file;
    f.refused += !works;
    gw_bal_config_free(&c);
}

/* No connection is left: workers that leave are gone. */
static void be_quiet(void)
{
    note("no connection is left");
    for (struct gw_bal_service *s = f.core.model.services; s; s = s->next)
        for (struct gw_bal_worker *w = s->workers; w; w = w->next) w->counted = w->changed;
    gw_bal_tend(&f.core.model, UINT64_MAX, gw_deadline(0));
    for (int v = 0; v < VIPS; v++)
        EACH_WORKER(a, p) if (f.now.service[v].worker[a][p].leave) f.now.service[v].worker[a][p].used = 0;
    for (int v = 0; v < VIPS; v++)
        EACH_WORKER(a, p) if (!f.now.service[v].worker[a][p].used) f.now.service[v].worker[a][p].leave = 0;
}

static void begin_from_file(void)
{
    struct gw_bal_config c;
    require(!take_file(&f.file, &c) && !gw_bal_begin(&f.core.model, &c.model));
    gw_bal_config_free(&c);
    f.now = loaded((struct a_model){0}, &f.file);
}

/* Operations that had not reached the data plane are lost; the next one finds the rest there. */
static void control_dies(void)
{
    int found = 0;
    note("the control plane dies");
    end_control();
    begin_control();
    require(!gw_bal_exchange_state(f.exchange, &f.core.model, &found) && found == f.plane_knows);
    f.deaths++;
    if (found) {
        require(!f.core.model.lost && !gw_bal_model_refuse(&f.core.model));
        f.now = f.told;
        f.file = f.told_file;
        return;
    }
    begin_from_file(); /* both are dead: it is what is left */
}

static void plane_dies(void)
{
    note("the data plane dies");
    end_plane();
    begin_plane();
    attach();
    f.plane_knows = 0;
    f.deaths++;
}

static void of_a_worker(int v)
{
    int a = (int)below(ADDRS), p = (int)below(PORTS);
    const struct a_service *s = &f.now.service[v];
    for (int i = 0; i < ADDRS * PORTS && !s->worker[a][p].used; i++) {
        p = (p + 1) % PORTS;
        if (!p) a = (a + 1) % ADDRS;
    }
    if (!s->worker[a][p].used) return;
    if (below(2))
        answer_check(v, a, p);
    else
        change_worker(v, a, p);
}

/* One of them; then mostly both planes are looked at. */
static void operate(void)
{
    int v = (int)below(VIPS), used = f.now.service[v].used;
    uint32_t what = below(20);
    if (what == 0)
        reload();
    else if (what == 1)
        be_quiet();
    else if (what == 2 && !below(3))
        control_dies();
    else if (what == 3 && !below(3))
        plane_dies();
    else if (!used)
        add_service(v);
    else if (what < 6)
        change_service(v);
    else if (what < 10)
        add_worker(v);
    else
        of_a_worker(v);
    if (!below(4)) return; /* one more before the data plane gets it */
    push();
    if (!below(what ? 40 : 3)) control_dies(); /* the next one must have just this */
    look_at_all();
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    uint64_t end = gw_deadline((uint64_t)(seconds * 1e9));
    char dir[] = "/tmp/gpuwire-operations-XXXXXX";
    f.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : gw_deadline(0);
    f.rnd.state = f.seed | 1;
    require(mkdtemp(dir) != NULL);
    snprintf(f.global.run_dir, sizeof(f.global.run_dir), "%s", dir);
    f.global.ports = 1;
    f.global.port[0] = (struct gw_bal_port){.interface = "eth0", .address4 = addr_of(5), .prefix4 = 24};
    begin_plane();
    begin_control();
    begin_from_file();
    push();
    while (gw_deadline(0) < end) operate();
    end_control();
    end_plane();
    rmdir(dir);
    printf("%llu operations, of which %llu were refused, and %llu deaths of a plane; seed %llu\n",
           (unsigned long long)f.operations, (unsigned long long)f.refused, (unsigned long long)f.deaths,
           (unsigned long long)f.seed);
    return 0;
}
