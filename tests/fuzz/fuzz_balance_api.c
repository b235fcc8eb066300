/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the balancer's API: each line of the input is a method, a path and a body. Whatever the model
 * then is, it can be written as JSON and read back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/control/api.h"
#include "src/balance/control/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void call(struct gw_bal_core *core, char *line)
{
    char *method = strsep(&line, " "), *path = line ? strsep(&line, " ") : NULL;
    json_t *reply = NULL, *body = line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (path && !gw_bal_api_call(core, method, path, body, &reply)) abort();
    if (path && !reply) abort();
    json_decref(reply);
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_bal_core core;
    struct gw_bal_model again = {0};
    char *text = malloc(size + 1), *rest = text, *line;
    if (!text || gw_bal_core_init(&core)) abort();
    memcpy(text, data, size);
    text[size] = 0;
    while ((line = strsep(&rest, "\n"))) call(&core, line);
    json_t *state = gw_bal_model_json(&core.model);
    if (!state || gw_bal_model_from(state, &again, 0)) abort();
    json_decref(state);
    gw_bal_model_free(&again);
    gw_bal_core_free(&core);
    free(text);
    return 0;
}
