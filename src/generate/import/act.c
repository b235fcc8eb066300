/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MLPs, by the names that configurations give them. */
#include "src/generate/import/act.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

int gen_act_read(const struct gen_json *config, const char *key, enum gen_act *act)
{
    static const struct {
        const char *name;
        enum gen_act act;
    } known[] = {
        {"silu", GEN_SILU},
        {"swish", GEN_SILU},
        {"gelu", GEN_GELU},
        {"gelu_new", GEN_GELU_TANH},
        {"gelu_pytorch_tanh", GEN_GELU_TANH},
        {"gelu_fast", GEN_GELU_TANH},
        {"relu", GEN_RELU},
        {"relu2", GEN_RELU2},
        {"quick_gelu", GEN_QUICK_GELU},
    };
    char name[32] = "";
    int err = gen_json_text(config, key, name, sizeof(name));

    if (err || !*name) return err;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(name, known[i].name)) {
            *act = known[i].act;
            return 0;
        }
    return gw_error(-ENOTSUP, "%s: %s: '%s' is not supported", config->where, key, name);
}
