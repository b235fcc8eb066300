/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h: what the data plane can run.
 *
 * The control plane asks before it changes anything, `gpuwire balance check` asks for a file, and each
 * publication asks again. All call these functions. `why` gets one line: what is wrong, and what to do.
 */
#ifndef GW_SRC_BALANCE_CHECK_H
#define GW_SRC_BALANCE_CHECK_H

#include "src/balance/objects.h"

#define BAL_WHY          160   /* bytes of a reason */
#define BAL_TIMEOUT_SPAN 8000u /* no timeout may be longer than that many of another */

/* Each returns 0 or -EINVAL. `ports`: all BAL_PORTS of them, or NULL where they are not known yet. */
int bal_check_attr(const struct bal_attr *attr, char why[BAL_WHY]);
int bal_check_port(const struct bal_port *port, char why[BAL_WHY]);
int bal_check_service(const struct bal_port *ports, const struct bal_service *s, char why[BAL_WHY]);
int bal_check_worker(const struct bal_port *ports, const struct bal_service *s, const struct bal_worker *w,
                     char why[BAL_WHY]);

enum bal_object { BAL_A_PORT, BAL_A_SERVICE, BAL_A_WORKER };
typedef void bal_refused(void *ctx, enum bal_object kind, uint32_t number, const char *why);
/* All of these, and what one object forbids another. Objects that cannot run are reported, and taken out of
 * the configuration: `used` becomes false. The workers of such a service go with it. 0 or -ENOMEM. */
int bal_check_config(struct bal_config *c, bal_refused *tell, void *ctx);

#endif
