/* SPDX-License-Identifier: Apache-2.0 */
/* Enlarging a picture: luma goes through a network tile by tile, the rest through bicubic interpolation. */
#include "src/image/enlarge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t pixels_in(const struct gw_enlarge *job)
{
    return (size_t)job->tiles.width * job->tiles.height;
}

static int allocate(struct gw_enlarge *job)
{
    size_t in = pixels_in(job), out = in * job->tiles.scale * job->tiles.scale;
    int colour = job->channels >= 3, alpha = job->channels % 2 == 0;
    struct {
        float **plane;
        size_t pixels;
        int wanted;
    } want[] = {{&job->y, in, 1},
                {&job->cb, in, colour},
                {&job->cr, in, colour},
                {&job->alpha, in, alpha},
                {&job->out, out, 1},
                {&job->out_cb, out, colour},
                {&job->out_cr, out, colour},
                {&job->out_alpha, out, alpha}};
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        if (!want[i].wanted) continue;
        *want[i].plane = malloc(want[i].pixels * sizeof(float));
        if (!*want[i].plane) return -ENOMEM;
    }
    /* A tile that never gets its answer shows as black, not as what was in memory before. */
    memset(job->out, 0, out * sizeof(float));
    if (!colour && !alpha) return 0;
    return gw_resizer_new(job->tiles.width, job->tiles.height, job->tiles.width * job->tiles.scale,
                          job->tiles.height * job->tiles.scale, &job->resizer);
}

int gw_enlarge_begin(struct gw_enlarge *job, const struct gw_image *picture, uint32_t side, uint32_t overlap,
                     uint32_t scale)
{
    memset(job, 0, sizeof(*job));
    int err = gw_tiles_plan(&job->tiles, picture->width, picture->height, side, overlap, scale);
    if (err) return err;
    job->channels = picture->channels;
    err = allocate(job);
    if (err) {
        gw_enlarge_end(job);
        return err;
    }
    gw_planes_from_image(picture, job->y, job->cb, job->cr, job->alpha);
    return 0;
}

void gw_enlarge_tile(const struct gw_enlarge *job, uint32_t index, float *input)
{
    gw_tile_extract(&job->tiles, index, job->y, input);
}

void gw_enlarge_answer(struct gw_enlarge *job, uint32_t index, const float *output)
{
    gw_tile_place(&job->tiles, index, output, job->out);
}

int gw_enlarge_finish(struct gw_enlarge *job, struct gw_image *larger)
{
    uint32_t k = job->tiles.scale;
    int err = gw_image_new(larger, job->tiles.width * k, job->tiles.height * k, job->channels);
    if (err) return err;
    if (job->cb) {
        gw_resizer_run(job->resizer, job->cb, job->out_cb);
        gw_resizer_run(job->resizer, job->cr, job->out_cr);
    }
    if (job->alpha) gw_resizer_run(job->resizer, job->alpha, job->out_alpha);
    gw_planes_to_image(job->out, job->out_cb, job->out_cr, job->out_alpha, larger);
    return 0;
}

void gw_enlarge_end(struct gw_enlarge *job)
{
    float *planes[] = {job->y,   job->cb,     job->cr,     job->alpha,
                       job->out, job->out_cb, job->out_cr, job->out_alpha};
    for (size_t i = 0; i < sizeof(planes) / sizeof(*planes); i++) free(planes[i]);
    gw_resizer_free(job->resizer);
    memset(job, 0, sizeof(*job));
}
