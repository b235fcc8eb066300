/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's folder becomes a generator with text in front of it: program, network, worker, tokenizer, chat
 * template and service. The tool and a server inside a program serve models of that kind.
 *
 * One thread at a time makes, starts and closes models. Functions return 0 or a negative errno, with the
 * reason in gw_last_error().
 */
#ifndef GW_GENERATE_HOST_MODEL_H
#define GW_GENERATE_HOST_MODEL_H

#include "src/generate/import/folder.h"
#include "src/generate/openai/service.h"
#include "src/generate/worker/worker.h"

/* Where models run. All models of a process may share one. */
struct gen_place {
    struct gw_exec *exec, *own_exec;
    struct gw_device *dev, *own_dev; /* own: for the doors, on CPU threads */
};

/* `exec` is "gpu", "cpu" or "auto"; `device` an RDMA device, "softnic" or NULL. gen_place_close closes what
 * is there, also when this has failed. */
int gen_place_open(const char *exec, uint32_t gpu, const char *device, struct gen_place *p);
void gen_place_close(struct gen_place *p);

struct gen_model_opts {
    const char *folder;
    const char *name;                                 /* NULL, or "": as the folder is called */
    uint32_t threads;                                 /* of a network on CPU threads; 0: 1 */
    uint32_t lanes, context, max_tokens, prompt_rows; /* 0: chosen, as struct gen_worker_opts says */
    uint64_t cache_bytes;                             /* 0: chosen */
    uint32_t cache_type;                              /* GW_DTYPE_F32, F16 or BF16; 0: the network's choice */
    uint32_t sessions, slots;                         /* clients' own, over RDMA */
};

struct gen_model {
    char name[128];
    struct gen_model_info info;
    struct gen_program *program;
    struct gen_tokenizer *tokenizer;
    struct gen_chat *chat; /* NULL: the folder has no template */
    struct gen_worker *worker;
    struct gen_source source;
    struct gen_service *service;
};

/* Opens the folder and makes its generator; it does not start it. gen_model_close frees what is there. */
int gen_model_make(const struct gen_model_opts *opts, const struct gen_place *place, struct gen_model *out);
/* Starts it, and the text in front of it. */
int gen_model_start(struct gen_model *m);
/* Is anything under way: requests, or answers that are being read? */
bool gen_model_busy(const struct gen_model *m);
/* The generator has been stopped. -EBUSY: it has not, and nothing was freed. */
int gen_model_close(struct gen_model *m);

#endif
