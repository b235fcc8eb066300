/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/balance_plane.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const services =
    "{\"op\": \"apply\", \"state\": {\"version\": 3, \"next_worker\": 2, \"next_service\": 2, \"file\": "
    "\"0\","
    " \"services\": [{\"id\": 0, \"name\": \"web\", \"address\": \"10.0.0.100\", \"port\": 80, \"workers\":"
    " [{\"id\": 0, \"name\": \"w1\", \"address\": \"10.0.0.11\", \"health\": {\"known\": true, \"up\": "
    "true}}]},"
    " {\"id\": 1, \"name\": \"rdma\", \"address\": \"fd00::1\", \"port\": 4791, \"protocol\": \"roce\", "
    "\"workers\":"
    " [{\"id\": 1, \"name\": \"w2\", \"address\": \"fd00::2\", \"health\": {\"known\": true, \"up\": "
    "true}}]}]}}";

void require(int ok)
{
    if (!ok) abort();
}

static void nothing(void *ctx)
{
    (void)ctx;
}

json_t *plane_services(void)
{
    json_t *question = json_loads(services, JSON_REJECT_DUPLICATES, NULL);
    require(question != NULL);
    return question;
}

struct plane *plane(void)
{
    static struct plane p;
    const struct bal_attr attr = {.cores = 1, .flows = 1024, .wide_flows = 1024};
    char dir[] = "/tmp/fuzz-balance-XXXXXX", path[sizeof(dir) + 16];
    if (p.bal) return &p;
    require(mkdtemp(dir) != NULL && !bal_create(&attr, &p.bal));
    p.core = bal_core_begin(p.bal, 0);
    p.now = 1000000000000;
    snprintf(p.global.run_dir, sizeof(p.global.run_dir), "%s", dir);
    require(!gw_bal_agent_start(p.bal, &p.global, nothing, NULL, &p.agent));
    /* Only this process asks the agent. */
    snprintf(path, sizeof(path), "%s/plane.sock", dir);
    unlink(path);
    rmdir(dir);
    return &p;
}

void plane_keep(struct plane *p, unsigned times)
{
    while (times--) bal_core_keep(p->core, p->now += 100000000);
}

uint64_t plane_live(const struct plane *p)
{
    struct bal_totals t;
    bal_totals(p->bal, 0, &t);
    return t.live;
}
