/* SPDX-License-Identifier: Apache-2.0 */
/* keepalived's parameters: "$NAME=VALUE" on a line of its own, then $NAME or ${NAME} below it. */
#ifndef GW_BALANCE_CONTROL_PARAMS_H
#define GW_BALANCE_CONTROL_PARAMS_H

struct gw_bal_param {
    struct gw_bal_param *next;
    char *value; /* after the name, in one piece of memory */
    char name[];
};

/* The text with values in place of names, line for line; the caller frees it. A name without a value stays as
 * it is. NULL with words: no memory, or more than GW_BAL_MAX bytes. Definitions join *params, which the
 * caller frees. */
char *gw_bal_params_fill(const char *text, struct gw_bal_param **params);
void gw_bal_params_free(struct gw_bal_param *params);

#endif
