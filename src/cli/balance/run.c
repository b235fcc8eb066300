/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire balance --config FILE, and check FILE. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/balance/control/daemon.h"
#include "src/balance/control/link.h"
#include "src/balance/run.h"
#include "src/cli/balance/args.h"
#include "src/cli/options.h"

static int reload_fd = -1;

static void on_hup(int number)
{
    uint64_t one = 1;
    int saved = errno;
    (void)number;
    if (write(reload_fd, &one, sizeof(one)) < 0) { /* it is full: readable anyway */
    }
    errno = saved;
}

int gw_balance_run_here(const struct gw_balance_args *a)
{
    struct sigaction hup = {.sa_handler = on_hup};
    gw_catch_signals();
    reload_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigaction(SIGHUP, &hup, NULL);
    struct gw_bal_daemon_opts opts = {.config = a->config,
                                      .keep = a->keep,
                                      .stop_fd = gw_interrupt_fd(),
                                      .reload_fd = reload_fd,
                                      .stopped = gw_interrupted};
    int err = gw_bal_daemon_run(&opts);
    if (err == -EINTR) return GW_EXIT_INTERRUPTED;
    if (err && err != -ECHILD) gw_failed("balance");
    return err ? GW_EXIT_FAILURE : GW_EXIT_OK;
}

static void on_end(int number)
{
    (void)number;
    gw_bal_plane_stop();
}

int gw_balance_plane(const struct gw_balance_args *a)
{
    struct gw_bal_config c;
    struct sigaction end = {.sa_handler = on_end};
    if (!a->config) return gw_usage_error("balance", "plane: --config FILE is missing");
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    signal(SIGPIPE, SIG_IGN);
    gw_bal_config_default(&c);
    int err = a->words ? gw_bal_settings_take(a->word[0], &c.global) : gw_bal_config_read(a->config, &c);
    if (!err) err = gw_bal_plane_run(&c);
    gw_bal_config_free(&c);
    return err ? gw_failed("balance") : GW_EXIT_OK;
}

int gw_balance_check(const struct gw_balance_args *a)
{
    struct gw_bal_config c;
    unsigned services = 0, workers = 0;
    int err = gw_bal_config_read(a->word[0], &c);
    for (const struct gw_bal_service *s = c.model.services; s; s = s->next) {
        services++;
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) workers++;
    }
    err = gw_bal_config_say(a->word[0], &c, err);
    if (err) {
        gw_bal_config_free(&c);
        return gw_failed("balance");
    }
    printf("%s: %u service%s, %u worker%s, %u port%s\n", a->word[0], services, services == 1 ? "" : "s",
           workers, workers == 1 ? "" : "s", c.global.ports, c.global.ports == 1 ? "" : "s");
    if (c.global.ports && !gw_balance_has_dpdk())
        printf("this gpuwire was built without DPDK: it cannot forward packets\n");
    gw_bal_config_free(&c);
    return GW_EXIT_OK;
}
