/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the folder of a model, and makes a generator of it. */
#include "src/generate/host/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/door/log.h"
#include "src/generate/cpu/cpu.h"
#include "src/generate/gpu/gpu.h"

#define OWN_SESSIONS 4u /* of each model, for the doors */
#define LANES        32u
#define MAX_ROWS_CPU 256u

static int model_net(const struct gen_model_opts *o, const struct gen_place *place,
                     const struct gen_program *program, struct gen_net *net)
{
    if (gw_exec_kind(place->exec) == GW_EXEC_GPU) {
        const struct gen_gpu_options gpu = {.exec = place->exec,
                                            .max_rows = GEN_MAX_ROWS,
                                            .lanes = o->lanes ? o->lanes : LANES,
                                            .cache_type = o->cache_type};
        return gen_gpu_net(program, &gpu, net);
    }
    const struct gen_cpu_opts cpu = {.threads = o->threads, .max_rows = MAX_ROWS_CPU, .dtype = o->cache_type};
    return gen_cpu_net(program, &cpu, net);
}

/* A model without a template knows no chats; one that cannot be read is said, and the rest is served. */
static int model_text(const char *folder, struct gen_model *m)
{
    int err = gen_tokenizer_open(folder, &m->tokenizer);
    if (err) return err;
    err = gen_chat_open(folder, &m->chat);
    if (err == -ENOTSUP || err == -EINVAL)
        gw_log(GW_LOG_WARNING, "model %s answers no chats: %s", m->name, gw_last_error());
    return err == -ENOMEM ? err : 0;
}

int gen_model_make(const struct gen_model_opts *o, const struct gen_place *place, struct gen_model *m)
{
    struct gen_worker_opts opts = {.name = m->name,
                                   .exec = place->exec,
                                   .dev = place->dev,
                                   .lanes = o->lanes,
                                   .context = o->context,
                                   .max_tokens = o->max_tokens,
                                   .prompt_rows = o->prompt_rows,
                                   .cache_bytes = o->cache_bytes,
                                   .sessions = o->sessions,
                                   .slots = o->slots,
                                   .own_sessions = OWN_SESSIONS,
                                   .own_dev = place->own_dev};
    int err = gen_model_open(o->folder, &m->program, &m->info);
    if (err) return err;
    snprintf(m->name, sizeof(m->name), "%s", o->name && o->name[0] ? o->name : m->info.name);
    err = model_text(o->folder, m);
    if (!err) err = model_net(o, place, m->program, &opts.net);
    if (err) return err;
    err = gen_worker_create(&opts, &m->worker);
    if (!err) m->source = gen_client_source(gen_worker_client(m->worker));
    return err;
}

int gen_model_start(struct gen_model *m)
{
    struct gen_service_opts opts = {.name = m->name,
                                    .source = &m->source,
                                    .tokenizer = m->tokenizer,
                                    .chat = m->chat,
                                    .defaults = GEN_DEFAULTS};
    if (m->info.sample)
        opts.defaults = (struct gen_defaults){.temperature = m->info.temperature,
                                              .top_p = m->info.top_p,
                                              .min_p = m->info.min_p,
                                              .repetition = m->info.repetition,
                                              .top_k = m->info.top_k};
    int err = gen_worker_start(m->worker);
    return err ? err : gen_service_open(&opts, &m->service);
}

bool gen_model_busy(const struct gen_model *m)
{
    return gen_worker_busy(m->worker) || gen_service_answers(m->service);
}

int gen_model_close(struct gen_model *m)
{
    gen_service_close(m->service);
    m->service = NULL;
    int err = gen_worker_destroy(m->worker);
    if (err) return err;
    gen_chat_close(m->chat);
    gen_tokenizer_close(m->tokenizer);
    gen_program_free(m->program);
    memset(m, 0, sizeof(*m));
    return 0;
}
