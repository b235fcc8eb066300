/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane's commands to the process that forwards packets. The input is a row of questions, 8
 * bytes each: one of the kinds below, with up to two of its characters changed. The bytes after a zero byte
 * are a question of their own. Each has an answer, and the core can live with what was applied.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/balance_plane.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORD = 8 };

static char *apply;
static const char *const questions[] = {
    "{\"op\": \"load\", \"loads\": [[0, 3, 4096], [1, 0, 0]]}",
    "{\"op\": \"queue_pair\", \"service\": 1, \"worker\": 1, \"client\": \"fd00::9\", \"qpn\": 17, "
    "\"ended\": false}",
    "{\"op\": \"queue_pair\", \"service\": 1, \"worker\": 1, \"client\": \"fd00::9\", \"qpn\": 17, "
    "\"ended\": true}",
    "{\"op\": \"stats\"}",
    "{\"op\": \"state\"}",
    "{\"op\": \"stop\"}",
};
enum { KINDS = sizeof(questions) / sizeof(questions[0]) };

static void ask(struct plane *p, const char *text, size_t n)
{
    json_t *question = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL), *answer;
    if (!question) return;
    answer = gw_bal_agent_answer(p->agent, question);
    require(json_is_object(answer));
    json_decref(answer);
    json_decref(question);
}

static void ask_changed(struct plane *p, const uint8_t *how)
{
    size_t kind = how[0] % (2 * KINDS);
    char *text = strdup(kind < KINDS ? questions[kind] : apply);
    require(text != NULL);
    size_t n = strlen(text);
    for (int i = 1; i < 7; i += 3)
        if (how[i + 2]) text[(how[i] | (size_t)how[i + 1] << 8) % n] = (char)how[i + 2];
    ask(p, text, n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plane *p = plane();
    json_t *first = plane_services(), *answer = gw_bal_agent_answer(p->agent, first);
    require(json_object_get(answer, "version") != NULL); /* what the last input has left goes */
    if (!apply) apply = json_dumps(first, JSON_COMPACT);
    json_decref(first);
    json_decref(answer);
    for (; size >= RECORD && data[0]; data += RECORD, size -= RECORD) ask_changed(p, data);
    if (size && !data[0]) ask(p, (const char *)data + 1, size - 1);
    plane_keep(p, 2);
    return 0;
}
