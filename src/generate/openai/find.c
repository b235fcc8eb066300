/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the model that a call names. */
#include <string.h>

#include "src/generate/openai/shared.h"

struct gen_service *gen_openai_find(const struct gen_openai_door *d, const char *model,
                                    struct gen_refusal *refusal)
{
    uint32_t n = gen_openai_services(d);
    for (uint32_t i = 0; model && i < n; i++)
        if (!strcmp(gen_service_of(d->service[i])->name, model)) return d->service[i];
    if (!model && n == 1) return d->service[0];
    if (!model)
        gen_refuse_field(refusal, "model", "model: it is missing, and this server has %u models", n);
    else
        gen_refuse(refusal, 404, "model", "model_not_found",
                   "the model '%.100s' does not exist; see v1/models", model);
    return NULL;
}
