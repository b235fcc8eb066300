/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a picture into tiles, sends them to a server, and joins the answers. */
#include "src/cli/enlarge.h"

#include <errno.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"
#include "src/cli/progress.h"

/* The sides of a model that takes one luma tile and answers with a larger one. */
static int tile_sides(const struct gw_client *c, uint32_t *side, uint32_t *scale)
{
    const struct gw_client_tensor *in = gw_client_input(c, 0), *out = gw_client_output(c, 0);
    int one = gw_client_inputs(c) == 1 && gw_client_outputs(c) == 1 && in->dtype == GW_DTYPE_F32 &&
              out->dtype == GW_DTYPE_F32;
    int square = one && in->rank == 4 && out->rank == 4 && in->dims[0] == 1 && in->dims[1] == 1 &&
                 out->dims[0] == 1 && out->dims[1] == 1 && in->dims[2] == in->dims[3] &&
                 out->dims[2] == out->dims[3];
    if (!square || out->dims[2] % in->dims[2] || out->dims[2] / in->dims[2] > 16)
        return gw_error(-EINVAL,
                        "this model does not enlarge pictures: it is not 1x1xNxN to 1x1xkNxkN; use --input");
    *side = (uint32_t)in->dims[2];
    *scale = (uint32_t)(out->dims[2] / in->dims[2]);
    return 0;
}

int gw_next_answer(struct gw_client *c, struct gw_client_reply *reply)
{
    uint64_t end = gw_deadline(GW_ANSWER_NS);
    for (;;) {
        int err = gw_client_wait(c, gw_deadline(100000000), reply);
        if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
        if (err == -ETIMEDOUT && gw_deadline(0) < end) continue;
        if (!err && reply->error) return gw_error(reply->error, "%s", reply->why);
        return err;
    }
}

static int run_tiles(struct gw_client *c, struct gw_enlarge *job, uint64_t total, struct gw_latency *latency)
{
    struct gw_progress bar;
    struct gw_client_reply reply;
    uint64_t sent = 0, answered = 0;
    uint32_t slots = gw_client_slots(c), slot = 0;
    int err = 0;
    gw_progress_begin(&bar, "tiles", total);
    while (!err && answered < total) {
        if (sent < total && sent - answered < slots) {
            gw_enlarge_tile(job, (uint32_t)(sent % job->tiles.count), gw_client_slot_input(c, slot, 0, 1));
            struct gw_client_request request = {.id = sent++};
            err = gw_client_submit(c, slot, &request);
            slot = (slot + 1) % slots;
            continue;
        }
        err = gw_next_answer(c, &reply);
        if (err) break;
        gw_enlarge_answer(job, (uint32_t)(reply.id % job->tiles.count), reply.out[0].data);
        gw_latency_add(latency, &reply.times);
        slot = reply.slot; /* the one that is free now */
        gw_progress_at(&bar, ++answered);
    }
    gw_progress_end(&bar);
    return err;
}

int gw_enlarge_by(struct gw_client *c, const struct gw_image *in, uint32_t rounds, struct gw_image *out,
                  struct gw_latency *latency)
{
    struct gw_enlarge job;
    uint32_t side = 0, scale = 0;
    int err = tile_sides(c, &side, &scale);
    if (err) return err;
    err = gw_enlarge_begin(&job, in, side, GW_TILE_OVERLAP, scale);
    if (err)
        return gw_error_errno(err, "a picture of %ux%u cannot be enlarged %u times", in->width, in->height,
                              scale);
    err = run_tiles(c, &job, (uint64_t)job.tiles.count * rounds, latency);
    if (!err) {
        err = gw_enlarge_finish(&job, out);
        if (err) gw_error_errno(err, "joining the tiles");
    }
    gw_enlarge_end(&job);
    return err;
}
