/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: one rank's side of a job on its executor: memory, channels to the other ranks, and the kernels of
 * a round. It knows nothing of files or of the master. Functions return 0 or a negative errno with one line
 * in engine_why.
 */
#ifndef GW_MAPREDUCE_ENGINE_H
#define GW_MAPREDUCE_ENGINE_H

#include <gpuwire/channel.h>

#include "mapreduce.h"

struct engine;

struct engine_opts {
    const char *exec; /* "cpu", "gpu", "auto" */
    uint32_t lanes;   /* CPU */
    uint32_t mappers; /* blocks; 0: as many as fit */
    uint32_t device;  /* GPU */
    uint64_t memory;  /* bytes for pairs; 0: chosen from the input's size */
    uint32_t ranks;   /* how many there are at first */
};

/* What a job's ranks must know; the master says it. */
struct engine_job {
    const struct mr_job *job;
    uint32_t record, key, value, keys, parts;
    const uint8_t *names; /* struct mr_args_'s */
    uint32_t names_bytes;
    uint64_t max_state;
};

/* Opens the executor and the NIC; *out is there also when that fails, unless memory is out. */
int engine_open(const struct engine_opts *opts, struct engine **out);
/* Makes all that the job needs, once. input: bytes of all files. */
int engine_prepare(struct engine *e, const struct engine_job *job, uint64_t input);
void engine_close(struct engine *e);
const char *engine_why(const struct engine *e);
const char *engine_name(const struct engine *e);
/* Bytes of a piece at most: tasks are cut into such pieces. */
uint32_t engine_piece(const struct engine *e);

/* MR_KEEP: bytes of the buffer for pieces that stay; 0: there is none. */
uint64_t engine_kept(const struct engine *e);

/* A new epoch: `n` ranks are alive, of which this is number `me`. Channels begin again; `ends` gets a line of
 * text for each of the others, in their order without this one. */
int engine_epoch(struct engine *e, uint32_t n, uint32_t me, char (*ends)[GW_CHANNEL_END_TEXT]);
int engine_connect(struct engine *e, const char (*ends)[GW_CHANNEL_END_TEXT]);

/* Starts the kernels of a round. splits: MR_ORDER's, or NULL. sample: no pairs are sent, keys are sampled. */
int engine_begin(struct engine *e, const void *state, uint64_t state_bytes, const uint8_t *splits,
                 bool sample);

/* A free slot and where its bytes go: MR_LEAD bytes before the piece, engine_room of it at most. NULL: none
 * is free now. engine_ready hands it to the mappers. */
struct mr_slot *engine_slot(struct engine *e, uint8_t **bytes);
uint32_t engine_room(const struct engine *e);
void engine_ready(struct engine *e, struct mr_slot *slot);
/* No more pieces will come. */
void engine_no_more(struct engine *e);

/* 0: the kernels run; 1: they have ended well. A negative errno: the round has failed; *wrong says how, and
 * *detail (enum mr_wrong; MR_FINE: the executor failed). */
int engine_poll(struct engine *e, uint32_t *wrong, uint64_t *detail);
/* Ends the kernels, however far they are. */
int engine_stop(struct engine *e);

/* The sampled keys after a round that sampled: copies up to max of them, returns how many. */
int64_t engine_samples(struct engine *e, uint8_t *to, uint32_t max);

/* Reduces a partition that this rank has. sink gets its output in order; what it returns ends the call. */
int engine_reduce(struct engine *e, uint32_t part, int (*sink)(void *arg, const void *from, size_t bytes),
                  void *arg);
/* Which rank (number among those alive) has a partition. */
uint32_t engine_owner(const struct engine *e, uint32_t part);

struct engine_counts {
    uint64_t pairs, chunks;
    /* Of this round's reduces so far. write_ns: with what the sink took, which is sink_ns */
    uint64_t sort_ns, measure_ns, write_ns, sink_ns;
};
void engine_counts(struct engine *e, struct engine_counts *c);

#endif
