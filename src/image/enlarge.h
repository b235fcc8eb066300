/* SPDX-License-Identifier: Apache-2.0 */
/* Enlarging a picture with a network for luma: what is done around the network.
 *
 *     gw_enlarge_begin(&job, &picture, 224, 8, 3);
 *     for each i below job.tiles.count, in any order:
 *         gw_enlarge_tile(&job, i, input);      // send it to the network
 *         gw_enlarge_answer(&job, i, output);   // when its answer is there
 *     gw_enlarge_finish(&job, &larger);
 *     gw_enlarge_end(&job);
 *
 * The colour differences and alpha are enlarged by bicubic interpolation. Nothing is allocated between begin
 * and finish. */
#ifndef GW_IMAGE_ENLARGE_H
#define GW_IMAGE_ENLARGE_H

#include "src/image/planes.h"
#include "src/image/tiles.h"

struct gw_enlarge {
    struct gw_tiles tiles;
    uint32_t channels;
    float *y;               /* the picture's luma */
    float *cb, *cr, *alpha; /* its other planes; NULL where it has none */
    float *out;             /* the enlarged luma */
    float *out_cb, *out_cr, *out_alpha;
    struct gw_resizer *resizer;
};

/* `side`, `overlap` and `scale` as gw_tiles_plan() takes them. -ENOMEM, -EINVAL, -E2BIG (the enlarged
 * picture, too, must be within the limits of pictures). On failure nothing needs ending. */
int gw_enlarge_begin(struct gw_enlarge *job, const struct gw_image *picture, uint32_t side, uint32_t overlap,
                     uint32_t scale);

/* Writes the network's input for tile `index`: side * side floats. */
void gw_enlarge_tile(const struct gw_enlarge *job, uint32_t index, float *input);
/* Takes the network's output for tile `index`: (side * scale)² floats. Different tiles may be given at once.
 */
void gw_enlarge_answer(struct gw_enlarge *job, uint32_t index, const float *output);

/* Makes the enlarged picture, once all tiles are answered. -ENOMEM. */
int gw_enlarge_finish(struct gw_enlarge *job, struct gw_image *larger);
void gw_enlarge_end(struct gw_enlarge *job);

#endif
