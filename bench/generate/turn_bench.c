/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what the scheduler takes for each step beside the network: the turn, and the sampling. One CPU
 * thread runs both, with 1, 32 and 64 lanes that make tokens. The NIC is the one of the scheduler's tests.
 *
 *     turn_bench [VOCAB]
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/generate/device/clients.h"

enum { SESSIONS = 8, SLOTS = 8, PROMPT = 48, MOST = 200 };

static void begin(uint32_t lanes, uint32_t vocab)
{
    struct world_opts o = {.shape = {.sessions = SESSIONS,
                                     .slots = SLOTS,
                                     .depth = 64,
                                     .requests = SESSIONS * SLOTS,
                                     .lanes = lanes,
                                     .pages = 2048,
                                     .context = 256,
                                     .vocab = vocab,
                                     .size = {64, 1024},
                                     .sizes = 2,
                                     .picks = true,
                                     .secret = 1},
                           .ring = MOST};
    world_begin(&o);
    clients_begin(SESSIONS, SLOTS, MOST);
    for (uint32_t i = 0; i < SESSIONS; i++) world_open(i);
}

static void ask_all(uint32_t lanes, uint32_t vocab, float temperature)
{
    uint32_t prompt[CLIENT_CONTEXT];
    for (uint32_t i = 0; i < lanes; i++) {
        struct gen_request q = world_request(i + 1, PROMPT, MOST);
        for (uint32_t k = 0; k < PROMPT; k++) prompt[k] = (i * 31 + k * 7) % vocab;
        q.temperature = temperature;
        q.top_p = temperature > 0 ? 0.9f : 1;
        q.seed = i;
        client_ask(i % SESSIONS, i / SESSIONS, q, prompt);
    }
}

static void measure(uint32_t lanes, uint32_t vocab, float temperature)
{
    double before[2], after[2];
    uint32_t steps = 150;
    begin(lanes, vocab);
    ask_all(lanes, vocab, temperature);
    for (uint32_t i = 0; i < 20; i++) world_turn_unchecked(); /* prompts are computed */
    world_times(before);
    for (uint32_t i = 0; i < steps; i++) world_turn_unchecked();
    world_times(after);
    printf("%5u %8u %-12s %10.2f %13.1f\n", lanes, vocab, temperature > 0 ? "top-p 0.9" : "greedy",
           1e6 * (after[0] - before[0]) / steps, 1e6 * (after[1] - before[1]) / steps);
    world_end();
    clients_end();
}

int main(int argc, char **argv)
{
    uint32_t vocab = argc > 1 ? (uint32_t)atoi(argv[1]) : 49152;
    printf("lanes    vocab sampling      turn (us) sampling (us)\n");
    for (uint32_t k = 0; k < 2; k++) {
        measure(1, vocab, (float)k);
        measure(32, vocab, (float)k);
        measure(64, vocab, (float)k);
    }
    return 0;
}
