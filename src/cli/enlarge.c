/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/enlarge.h"

#include <errno.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"
#include "src/cli/progress.h"

/* The sides of a model that takes one luma tile and answers with a larger one. */
static int tile_sides(const struct gw_client *c, uint32_t *side, uint32_t *scale)
{
    const struct gw_client_tensor *in = gw_client_input(c), *out = gw_client_output(c);
    int square = in->ndim == 4 && out->ndim == 4 && in->dim[0] == 1 && in->dim[1] == 1 && out->dim[0] == 1 &&
                 out->dim[1] == 1 && in->dim[2] == in->dim[3] && out->dim[2] == out->dim[3];
    if (!square || out->dim[2] % in->dim[2] || out->dim[2] / in->dim[2] > 16)
        return gw_error(-EINVAL,
                        "this model does not enlarge pictures: it is not 1x1xNxN to 1x1xkNxkN; use --input");
    *side = (uint32_t)in->dim[2];
    *scale = (uint32_t)(out->dim[2] / in->dim[2]);
    return 0;
}

int gw_next_answer(struct gw_client *c, struct gw_client_reply *reply)
{
    uint64_t end = gw_deadline(GW_ANSWER_NS);
    for (;;) {
        int error = gw_client_wait(c, gw_deadline(100000000), reply);
        if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
        if (error == -ETIMEDOUT && gw_deadline(0) < end) continue;
        if (!error && reply->error)
            return gw_error(reply->error, "the worker could not answer request %llu",
                            (unsigned long long)reply->id);
        return error;
    }
}

static int run_tiles(struct gw_client *c, struct gw_enlarge *job, uint64_t total, struct gw_latency *latency)
{
    struct gw_progress bar;
    struct gw_client_reply reply;
    uint64_t sent = 0, answered = 0;
    uint32_t slots = gw_client_slots(c), slot = 0;
    int error = 0;
    gw_progress_begin(&bar, "tiles", total);
    while (!error && answered < total) {
        if (sent < total && sent - answered < slots) {
            gw_enlarge_tile(job, (uint32_t)(sent % job->tiles.count), gw_client_slot_input(c, slot));
            error = gw_client_submit(c, slot, sent++);
            slot = (slot + 1) % slots;
            continue;
        }
        error = gw_next_answer(c, &reply);
        if (error) break;
        gw_enlarge_answer(job, (uint32_t)(reply.id % job->tiles.count), reply.output);
        error = gw_latency_add(latency, &reply.times);
        slot = reply.slot; /* the one that is free now */
        gw_progress_at(&bar, ++answered);
    }
    gw_progress_end(&bar);
    return error;
}

int gw_enlarge_by(struct gw_client *c, const struct gw_image *in, uint32_t rounds, struct gw_image *out,
                  struct gw_latency *latency)
{
    struct gw_enlarge job;
    uint32_t side = 0, scale = 0;
    int error = tile_sides(c, &side, &scale);
    if (error) return error;
    error = gw_enlarge_begin(&job, in, side, GW_TILE_OVERLAP, scale);
    if (error)
        return gw_error_errno(error, "a picture of %ux%u cannot be enlarged %u times", in->width, in->height,
                              scale);
    error = run_tiles(c, &job, (uint64_t)job.tiles.count * rounds, latency);
    if (!error) {
        error = gw_enlarge_finish(&job, out);
        if (error) gw_error_errno(error, "joining the tiles");
    }
    gw_enlarge_end(&job);
    return error;
}
