/* SPDX-License-Identifier: Apache-2.0 */
/* The process that forwards packets: the balancer's cores, the agent that takes orders for them, and the
 * exchange of flows with a standby. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/balance/control/agent.h"
#include "src/balance/control/claim.h"
#include "src/balance/control/daemon.h"
#include "src/balance/control/link.h"
#include "src/balance/control/seed.h"
#include "src/balance/control/sync.h"
#include "src/balance/control/translate.h"
#include "src/balance/run.h"

static struct bal *running;
static int end_fd = -1;

void gw_bal_plane_stop(void)
{
    uint64_t one = 1;
    int saved = errno;
    if (running) bal_stop(running);
    if (end_fd >= 0 && write(end_fd, &one, sizeof(one)) < 0) { /* readable anyway */
    }
    errno = saved;
}

static void plane_stop(void *ctx)
{
    (void)ctx;
    gw_bal_plane_stop();
}

/* "af_packet:eth0", or the device's own name. */
static void name_device(const struct gw_bal_port *p, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", p->interface[0] ? p->driver : "", p->interface[0] ? ":" : "",
             p->interface[0] ? p->interface : p->device);
}

static void started(void *agent)
{
    gw_bal_agent_ready(agent);
}

static int forward(const struct gw_bal_global *g, struct gw_bal_agent *agent)
{
    char device[GW_BAL_PORTS][GW_BAL_TEXT + 32], cores[GW_BAL_CORES * 6] = "", why[256] = "";
    struct bal_run how = {.devices = g->ports, .huge_pages = g->huge_pages, .started = started, .arg = agent};
    size_t n = 0;
    for (unsigned i = 0; i < g->ports; i++) {
        const struct gw_bal_port *p = &g->port[i];
        name_device(p, device[i], sizeof(device[i]));
        how.device[i] = device[i];
        how.mtu[i] = p->mtu;
        /* Two would answer for one VIP, and forward each packet twice. The claim ends with the process. */
        if (p->interface[0] && gw_bal_claim_interface(p->interface) == -EBUSY) return -EBUSY;
    }
    for (unsigned i = 0; i < g->cores; i++)
        n += (size_t)snprintf(cores + n, sizeof(cores) - n, "%s%u", i ? "," : "", g->core[i]);
    how.cores = g->cores ? cores : NULL;
    int err = gw_balance_run(running, &how, why, sizeof(why));
    return err ? gw_error(err, "%s", why) : 0;
}

/* Without a device there is nothing to forward: the configuration can be tried. */
static void plane_wait_for_end(struct gw_bal_agent *agent)
{
    struct pollfd p = {.fd = end_fd, .events = POLLIN};
    gw_bal_agent_ready(agent);
    while (poll(&p, 1, -1) < 0) continue;
}

int gw_bal_plane_run(const struct gw_bal_config *c)
{
    struct bal_attr attr;
    struct gw_bal_agent *agent = NULL;
    struct gw_bal_sync *sync = NULL;
    struct gw_bal_link other = {.fd = -1};
    struct gw_bal_global global = c->global;
    if (!gw_bal_link_open(&other, c->global.run_dir)) {
        gw_bal_link_close(&other);
        return gw_error(-EADDRINUSE, "run_dir %s: another data plane answers there", c->global.run_dir);
    }
    int err = gw_bal_seed(&global, &global.maglev_seed);
    if (err) return err;
    gw_bal_translate_attr(&global, &attr);
    err = bal_create(&attr, &running);
    if (err) return gw_error_errno(err, "the flow tables (flows, wide_flows, timeouts in global_defs)");
    end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = gw_bal_agent_start(running, &global, plane_stop, NULL, &agent);
    if (!err) err = gw_bal_sync_start(running, &global, agent, &sync);
    if (!err) gw_bal_agent_sync(agent, sync);
    if (!err && global.ports)
        err = forward(&global, agent);
    else if (!err)
        plane_wait_for_end(agent);
    if (agent) gw_bal_agent_sync(agent, NULL);
    gw_bal_sync_stop(sync);
    gw_bal_agent_stop(agent);
    struct bal *mine = running;
    running = NULL;
    bal_destroy(mine);
    close(end_fd);
    return err;
}
