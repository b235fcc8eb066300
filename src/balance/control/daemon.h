/* SPDX-License-Identifier: Apache-2.0 */
/* The process of `gpuwire balance`: reads the file, reaches the data plane, checks the workers, answers the
 * API. */
#ifndef GW_BALANCE_CONTROL_DAEMON_H
#define GW_BALANCE_CONTROL_DAEMON_H

#include "src/balance/control/config.h"

struct gw_bal_daemon_opts {
    const char *config;   /* the file */
    int keep;             /* the data plane goes on when this process is told to end */
    int stop_fd;          /* readable: end */
    int reload_fd;        /* an eventfd: read the file again */
    int (*stopped)(void); /* the same as stop_fd, as a question */
};

/* Until stop_fd. 0 or a negative errno with the reason in gw_last_error(). -ECHILD: the data plane has said
 * why. */
int gw_bal_daemon_run(const struct gw_bal_daemon_opts *o);

/* The other process: forwards packets until its control plane, or `stop`'s caller, ends it. */
int gw_bal_plane_run(const struct gw_bal_config *c);
/* Ends gw_bal_plane_run; in a signal handler, too. */
void gw_bal_plane_stop(void);

#endif
