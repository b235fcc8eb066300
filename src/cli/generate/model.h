/* SPDX-License-Identifier: Apache-2.0 */
/* One model of `gpuwire generate`: its folder, its generator, and the text in front of it. */
#ifndef GW_CLI_GENERATE_MODEL_H
#define GW_CLI_GENERATE_MODEL_H

#include "src/cli/generate/args.h"
#include "src/generate/import/folder.h"
#include "src/generate/openai/service.h"
#include "src/generate/worker/worker.h"

/* All models share this. */
struct gw_cli_generate_place {
    struct gw_exec *exec, *own_exec;
    struct gw_device *dev, *own_dev; /* own: for the doors, on CPU threads */
};

struct gw_cli_generate_one {
    char name[128];
    struct gen_model_info info;
    struct gen_program *program;
    struct gen_tokenizer *tokenizer;
    struct gen_chat *chat; /* NULL: the folder has no template */
    struct gen_worker *worker;
    struct gen_source source;
    struct gen_service *service;
};

/* Opens the folder and makes its generator; it does not start it. 0, or a negative errno with the reason in
 * gw_last_error(): gw_cli_generate_close_one frees what is there. */
int gw_cli_generate_open_one(const struct gw_cli_generate *all, uint32_t i,
                             const struct gw_cli_generate_place *place, struct gw_cli_generate_one *out);
/* Starts it, and the text in front of it. */
int gw_cli_generate_start_one(struct gw_cli_generate_one *m);
/* The generator has been stopped. -EBUSY: it has not, and nothing was freed. */
int gw_cli_generate_close_one(struct gw_cli_generate_one *m);

#endif
