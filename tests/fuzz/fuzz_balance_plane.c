/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that forwards packets is told by its control plane: each line of the input is one question.
 * Each has an answer, and the core can live with what was applied. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/balance_plane.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(struct plane *p, json_t *question)
{
    json_t *answer = gw_bal_agent_answer(p->agent, question);
    require(json_is_object(answer));
    json_decref(answer);
    json_decref(question);
    plane_keep(p, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plane *p = plane();
    char *text = malloc(size + 1), *rest = text, *line;
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    ask(p, plane_services()); /* what the last input has left goes */
    while ((line = strsep(&rest, "\n"))) {
        json_t *question = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (question) ask(p, question);
    }
    ask(p, json_pack("{s:s}", "op", "stats"));
    free(text);
    return 0;
}
