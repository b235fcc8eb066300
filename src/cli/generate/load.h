/* SPDX-License-Identifier: Apache-2.0 */
/* Inside `gpuwire generate load`: what is measured, and how it is printed. */
#ifndef GW_CLI_GENERATE_LOAD_H
#define GW_CLI_GENERATE_LOAD_H

#include "src/cli/generate/load_args.h"
#include "src/cli/histogram.h"
#include "src/generate/wire/wire.h"

struct gw_cli_generate_result {
    struct gw_histogram first, between, whole; /* ns, of streams that began while it was measured */
    uint64_t begun, tokens, cached;            /* streams; tokens that came while it was measured */
    uint64_t ended[GEN_FAILED + 1];            /* by enum gen_status */
    uint64_t refused;                          /* streams that found no free slot */
    double seconds;
    double server_cpu_s, own_cpu_s; /* server's: below 0: it is not known */
};

/* The command. */
int gw_cli_generate_load(int argc, char **argv);

/* In load_print.c. */
void gw_cli_generate_print(const struct gw_cli_generate_load *l, const char *model,
                           const struct gw_cli_generate_result *r);

#endif
