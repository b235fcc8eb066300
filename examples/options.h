/* SPDX-License-Identifier: Apache-2.0 */
/* The options of examples, and of tests, that run on either executor: --exec cpu|gpu, --lanes N (CPU), --post
 * MODE (verbs: the posting mode, as GPUWIRE_POST), --test PATTERN (test_verbs_post: those tests alone). Exit
 * code 77: there is no GPU. */
#ifndef GW_EXAMPLES_OPTIONS_H
#define GW_EXAMPLES_OPTIONS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

static const char *test_exec_name = "cpu";
static struct gw_exec_opts test_exec_opts = {.lanes = 1};
static const char *test_pattern; /* for cmocka_set_test_filter; NULL: all */

static inline void test_options(int argc, char **argv)
{
    char why[200];
    int i;

    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc) {
            test_exec_name = argv[++i];
        } else if (!strcmp(argv[i], "--lanes") && i + 1 < argc) {
            test_exec_opts.lanes = (uint32_t)atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--post") && i + 1 < argc) {
            setenv("GPUWIRE_POST", argv[++i], 1);
        } else if (!strcmp(argv[i], "--test") && i + 1 < argc) {
            test_pattern = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--exec cpu|gpu] [--lanes N] [--post MODE] [--test PATTERN]\n",
                    argv[0]);
            exit(2);
        }
    }
    if (!strcmp(test_exec_name, "gpu") && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("gpu: skipped: %s\n", why);
        exit(77);
    }
}

/* A new executor, as the options say; ends the program when there is none. */
static inline struct gw_exec *test_exec(void)
{
    struct gw_exec *exec;

    if (gw_exec_create(test_exec_name, &test_exec_opts, &exec)) {
        fprintf(stderr, "no executor: %s\n", gw_last_error());
        exit(1);
    }
    return exec;
}

/* Threads that a block really has when it is launched with block threads. */
static inline uint32_t test_block_dim(const struct gw_exec *exec, uint32_t block)
{
    return block < gw_exec_lanes(exec) ? block : gw_exec_lanes(exec);
}

#endif
