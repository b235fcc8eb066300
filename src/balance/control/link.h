/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's end of the wire (agent.h): reaching the data plane, or starting it. */
#ifndef GW_BALANCE_CONTROL_LINK_H
#define GW_BALANCE_CONTROL_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "src/balance/control/config.h"

struct gw_bal_link {
    int fd;      /* -1: not connected */
    pid_t child; /* the data plane, if this process has started it; 0: it has not, or it has ended */
};

/* Connects to the data plane of this run_dir. -ENOENT or -ECONNREFUSED: there is none. */
int gw_bal_link_open(struct gw_bal_link *l, const char *run_dir);
/* Starts one (`gpuwire balance plane`), which outlives this process, and connects. It has these settings,
 * whatever the file `config` says by now, which only names it among processes. `stopped` ends the wait.
 * 0 or a negative errno with the reason in gw_last_error(); -ECHILD: it has said itself why it ended. */
int gw_bal_link_start(struct gw_bal_link *l, const struct gw_bal_global *g, const char *config,
                      int (*stopped)(void));
/* In the process that was started so: `fd` is its last word. -EINVAL with the reason. */
int gw_bal_settings_take(const char *fd, struct gw_bal_global *out);
void gw_bal_link_close(struct gw_bal_link *l);
/* Has the process that gw_bal_link_start started ended? */
bool gw_bal_link_ended(struct gw_bal_link *l);

/* Does the data plane answer, within a second? A socket that takes a connection may belong to a process that
 * stands still. 0, or a negative errno with the reason; the connection is closed then. */
int gw_bal_link_answers(struct gw_bal_link *l);

/* Takes the question's reference. 0: *answer is the caller's. -EREMOTEIO: the data plane refused, and why.
 * -EAGAIN: it asks to be asked again. Other errors: the connection is closed. */
int gw_bal_link_ask(struct gw_bal_link *l, json_t *question, json_t **answer);

#endif
