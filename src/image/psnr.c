/* SPDX-License-Identifier: Apache-2.0 */
/* How far two pictures are apart: the peak signal-to-noise ratio of their luma. */
#include "src/image/planes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int gw_plane_psnr(const float *a, const float *b, uint32_t width, uint32_t height, uint32_t border,
                  double *db)
{
    if (border >= (width + 1) / 2 || border >= (height + 1) / 2) return -EINVAL;
    double sum = 0;
    for (uint32_t y = border; y < height - border; y++) {
        for (uint32_t x = border; x < width - border; x++) {
            double d = (double)a[(size_t)y * width + x] - b[(size_t)y * width + x];
            sum += d * d;
        }
    }
    double count = (double)(width - 2 * border) * (height - 2 * border);
    *db = sum > 0 ? 10.0 * log10(count / sum) : INFINITY;
    return 0;
}

int gw_image_psnr(const struct gw_image *a, const struct gw_image *b, uint32_t border, double *db)
{
    if (!a->data || !b->data || a->width != b->width || a->height != b->height) return -EINVAL;
    size_t n = (size_t)a->width * a->height;
    float *luma = malloc(2 * n * sizeof(*luma));
    if (!luma) return -ENOMEM;
    gw_planes_from_image(a, luma, NULL, NULL, NULL);
    gw_planes_from_image(b, luma + n, NULL, NULL, NULL);
    int err = gw_plane_psnr(luma, luma + n, a->width, a->height, border, db);
    free(luma);
    return err;
}
