/* SPDX-License-Identifier: Apache-2.0 */
/* gw_fault_of, gw_qp_fault, gw_fault_text, gw_qp_reset: what a failed request leaves, and how to go on after
 * it. */
#include <stdio.h>

#include "fault.h"

#include <gpuwire/verbs.h>

int main(int argc, char **argv)
{
    struct pair *p = pair_open(argc, argv);
    struct gw_endpoint ep[2];
    struct gw_fault f = {0};
    char text[200];
    int ok = !pair_run(p, &fault, 1);

    ok &= gw_qp_fault(pair_qp(p, 0), &f) == 1 && f.status == IBV_WC_REM_ACCESS_ERR && !f.recv;
    gw_fault_text(&f, text, sizeof(text));
    printf("%s\n", text);

    /* Both ends again from the beginning; their packet sequence numbers, and so their endpoints, are new. */
    for (int i = 0; i < 2; i++) ok &= !gw_qp_reset(pair_qp(p, i), GW_RESET_QUIET, 0);
    for (int i = 0; i < 2; i++) gw_qp_endpoint(pair_qp(p, i), &ep[i]);
    for (int i = 0; i < 2; i++) ok &= !gw_qp_connect(pair_qp(p, i), &ep[!i], NULL);
    ok &= gw_qp_fault(pair_qp(p, 0), &f) == 0;
    return pair_close(p, ok);
}
