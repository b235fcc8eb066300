/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzzers of what stands above src/server/worker/worker.h: a server with one worker, as far as they
 * look at it. */
#ifndef TESTS_FUZZ_FAKE_WORKER_H
#define TESTS_FUZZ_FAKE_WORKER_H

#include <gpuwire/model.h>

struct fake_worker {
    const char *name;
    uint32_t inputs, outputs;
    const struct gw_tensor_info *input, *output;
    int run_error; /* what the model's last run ended with */
};
/* The fuzzer's own. */
extern const struct fake_worker fake_worker;

#endif
