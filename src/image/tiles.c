/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting planes into overlapping tiles, and joining the cores of what was made of them. */
#include "src/image/tiles.h"

#include <errno.h>
#include <string.h>

#include "src/image/image.h"

int gw_tiles_plan(struct gw_tiles *tiles, uint32_t width, uint32_t height, uint32_t side, uint32_t overlap,
                  uint32_t scale)
{
    memset(tiles, 0, sizeof(*tiles));
    if (!width || !height || !side || !scale || scale > 16 || overlap > (side - 1) / 2) return -EINVAL;
    if (side > GW_IMAGE_MAX_SIDE || width > GW_IMAGE_MAX_SIDE / scale || height > GW_IMAGE_MAX_SIDE / scale ||
        (uint64_t)width * height * scale * scale > GW_IMAGE_MAX_PIXELS)
        return -E2BIG;
    uint32_t core = side - 2 * overlap;
    *tiles = (struct gw_tiles){
        .width = width,
        .height = height,
        .side = side,
        .overlap = overlap,
        .scale = scale,
        .core = core,
        .columns = (width + core - 1) / core,
        .rows = (height + core - 1) / core,
    };
    tiles->count = tiles->columns * tiles->rows;
    return 0;
}

static uint32_t tiles_clamp(int64_t v, uint32_t end)
{
    return v < 0 ? 0 : v >= end ? end - 1 : (uint32_t)v;
}

void gw_tile_extract(const struct gw_tiles *tiles, uint32_t index, const float *plane, float *dst)
{
    int64_t left = (int64_t)(index % tiles->columns) * tiles->core - tiles->overlap;
    int64_t top = (int64_t)(index / tiles->columns) * tiles->core - tiles->overlap;
    int64_t from = left < 0 ? 0 : left; /* columns of the plane that the tile holds: [from, to) */
    int64_t to = left + tiles->side > tiles->width ? tiles->width : left + tiles->side;
    for (uint32_t y = 0; y < tiles->side; y++, dst += tiles->side) {
        const float *row = plane + (size_t)tiles_clamp(top + y, tiles->height) * tiles->width;
        for (int64_t x = left; x < from; x++) dst[x - left] = row[0];
        memcpy(dst + (from - left), row + from, (size_t)(to - from) * sizeof(*row));
        for (int64_t x = to; x < left + tiles->side; x++) dst[x - left] = row[tiles->width - 1];
    }
}

void gw_tile_place(const struct gw_tiles *tiles, uint32_t index, const float *src, float *plane)
{
    uint32_t left = index % tiles->columns * tiles->core, top = index / tiles->columns * tiles->core;
    uint32_t width = tiles->width - left < tiles->core ? tiles->width - left : tiles->core;
    uint32_t height = tiles->height - top < tiles->core ? tiles->height - top : tiles->core;
    uint32_t k = tiles->scale;
    size_t pitch = (size_t)tiles->width * k, src_pitch = (size_t)tiles->side * k;
    src += ((size_t)tiles->overlap * src_pitch + tiles->overlap) * k;
    plane += ((size_t)top * pitch + left) * k;
    for (uint32_t y = 0; y < height * k; y++)
        memcpy(plane + y * pitch, src + y * src_pitch, (size_t)width * k * sizeof(*src));
}
