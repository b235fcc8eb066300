/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that plans have in common: constants, of which equal ones lie there once, and room for intermediate
 * results. A plan that shares with no other has its own of both. */
#ifndef GW_MODEL_SHARE_H
#define GW_MODEL_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuwire/model.h>

/* What bytes are: two lanes of a hash, which no accident makes equal. A file that is made for it spoils only
 * its own model. */
struct gwm_key {
    uint64_t a, b;
    size_t bytes;
};

struct gwm_key gwm_key_of(const void *data, size_t bytes);
/* The same for bytes in pieces, each but the last a multiple of 8; gwm_key_of(NULL, 0) begins it. */
void gwm_key_more(struct gwm_key *key, const void *data, size_t bytes);

/* Room that constants of that size take. */
size_t gwm_weights_room(size_t bytes);
/* Do they lie at the caller's addresses? */
bool gwm_weights_given(const struct gw_weights *w);
/* Where constants lie already; NULL: nowhere. */
char *gwm_weights_find(const struct gw_weights *w, const struct gwm_key *key);
/* The next place of the caller's range. The caller of this fills it. -E2BIG, -ENOMEM, or what `back` says. */
int gwm_weights_place(struct gw_weights *w, const struct gwm_key *key, char **at);
/* Constants lie at `at`, in memory that the weights keep. -ENOMEM. */
int gwm_weights_note(struct gw_weights *w, const struct gwm_key *key, char *at);
/* Memory that lives as long as the weights, freed by `release`. -ENOMEM: it has been freed. */
int gwm_weights_keep(struct gw_weights *w, void *memory, void (*release)(void *memory));

/* How far the weights are; and back to there, when a plan was not made after all. */
struct gwm_mark {
    size_t entries, blocks;
    uint64_t bytes;
};
struct gwm_mark gwm_weights_mark(const struct gw_weights *w);
void gwm_weights_back(struct gw_weights *w, struct gwm_mark mark);

/* Room for `bytes`; NULL with *err 0: there is none yet, and the caller adds some. */
char *gwm_arena_find(struct gw_plan_arena *a, size_t bytes, int *err);
/* Room that the arena keeps, freed by `release`. -ENOMEM: it has been freed. */
int gwm_arena_add(struct gw_plan_arena *a, char *at, size_t bytes, void *memory,
                  void (*release)(void *memory));

/* Gives back what it keeps; nothing uses it any more. */
void gwm_arena_clear(struct gw_plan_arena *a);

#endif
