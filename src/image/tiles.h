/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting a plane into tiles of one fixed size for a network, and joining what the network makes of them.
 *
 * Neighbouring tiles overlap, and of each result only the core, `overlap` pixels away from the tile's edges,
 * is used. A network that sees no farther than `overlap` pixels makes of the cores exactly what it would have
 * made of the whole plane at once. So joining leaves no seam, not in the last bit. Beyond the plane's edges a
 * tile repeats the nearest pixel of the plane.
 *
 * Cores do not overlap each other, so tiles may be placed in any order and by several threads at once. */
#ifndef GW_IMAGE_TILES_H
#define GW_IMAGE_TILES_H

#include <stdint.h>

struct gw_tiles {
    uint32_t width, height; /* of the plane */
    uint32_t side;          /* of a tile, input pixels */
    uint32_t overlap;
    uint32_t scale; /* output pixels per input pixel, on each axis */
    uint32_t core;  /* side - 2 * overlap */
    uint32_t columns, rows, count;
};

/* -EINVAL: a size of 0, a scale over 16, or an overlap that leaves no core. -E2BIG: over the limits of
 * pictures. */
int gw_tiles_plan(struct gw_tiles *tiles, uint32_t width, uint32_t height, uint32_t side, uint32_t overlap,
                  uint32_t scale);

/* Writes tile `index` (below count) of the plane to dst, side * side floats. */
void gw_tile_extract(const struct gw_tiles *tiles, uint32_t index, const float *plane, float *dst);

/* Puts the core of src, (side * scale)² floats made of tile `index`, to its place in the plane, which is
 * width * scale by height * scale. */
void gw_tile_place(const struct gw_tiles *tiles, uint32_t index, const float *src, float *plane);

#endif
