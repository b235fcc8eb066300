/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A team of threads for work that comes in short pieces: a step of a network has about 200 of them. Members
 * take chunks as they come by, so that one that the system has stopped delays its own chunk alone. Between
 * pieces they spin for a moment, then they sleep: an idle team uses no CPU.
 */
#ifndef GW_GENERATE_CPU_TEAM_H
#define GW_GENERATE_CPU_TEAM_H

#include <stdint.h>

#define GEN_TEAM_MAX_THREADS 256u
#define GEN_TEAM_MAX_CHUNKS  (1u << 23)

struct gen_team;

/* Of that number of threads; the one that calls gen_team_run is one of them. -ENOMEM, -EAGAIN. */
int gen_team_new(uint32_t threads, struct gen_team **out);
/* NULL is allowed. No gen_team_run may be under way. */
void gen_team_free(struct gen_team *t);
uint32_t gen_team_threads(const struct gen_team *t);

/*
 * Has fn called once for each chunk, 0 … chunks - 1, on any member (0 … threads - 1), and returns when all
 * have returned. What fn has written is visible then, and to all chunks of later runs. One caller at a time.
 */
void gen_team_run(struct gen_team *t, uint32_t chunks, void (*fn)(void *ctx, uint32_t chunk, uint32_t member),
                  void *ctx);

#endif
