/* SPDX-License-Identifier: Apache-2.0 */
/* A picture's memory. */
#include "src/image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gw_image_new(struct gw_image *image, uint32_t width, uint32_t height, uint32_t channels)
{
    memset(image, 0, sizeof(*image));
    if (!width || !height || channels < 1 || channels > 4) return -EINVAL;
    if (width > GW_IMAGE_MAX_SIDE || height > GW_IMAGE_MAX_SIDE ||
        (uint64_t)width * height > GW_IMAGE_MAX_PIXELS)
        return -E2BIG;
    image->data = malloc((size_t)width * height * channels);
    if (!image->data) return -ENOMEM;
    image->width = width;
    image->height = height;
    image->channels = channels;
    return 0;
}

void gw_image_free(struct gw_image *image)
{
    free(image->data);
    memset(image, 0, sizeof(*image));
}

int gw_image_crop(const struct gw_image *in, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                  struct gw_image *out)
{
    memset(out, 0, sizeof(*out));
    if (x > in->width || width > in->width - x || y > in->height || height > in->height - y) return -EINVAL;
    int err = gw_image_new(out, width, height, in->channels);
    if (err) return err;
    size_t row = (size_t)width * in->channels;
    for (uint32_t i = 0; i < height; i++)
        memcpy(out->data + i * row, in->data + ((size_t)(y + i) * in->width + x) * in->channels, row);
    return 0;
}
