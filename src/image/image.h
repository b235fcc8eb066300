/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of 8 bits a channel: reading and writing PNG files, resizing, comparing. Host only.
 *
 * Functions return 0 or a negative errno and, where they take `err`, put one line there that says what failed
 * and on what; `err` may be NULL, GW_IMAGE_ERR bytes always suffice. They keep no state: any number of
 * threads may use different pictures at once. */
#ifndef GW_IMAGE_IMAGE_H
#define GW_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define GW_IMAGE_ERR        320
#define GW_IMAGE_MAX_SIDE   32768u     /* pixels wide or high at most */
#define GW_IMAGE_MAX_PIXELS (1u << 26) /* pixels in all at most: an RGBA picture of 256 MiB */

/* Rows from the top, pixels from the left, channels side by side, no padding. */
struct gw_image {
    uint32_t width, height;
    uint32_t channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; alpha is not multiplied into the others */
    uint8_t *data;
};

/* Allocates a picture, not cleared. -EINVAL: a side of 0, or channels not 1 to 4. -E2BIG: over the limits
 * above. -ENOMEM. On failure *image is empty. */
int gw_image_new(struct gw_image *image, uint32_t width, uint32_t height, uint32_t channels);
/* Frees the pixels and empties the struct; an empty one is allowed. */
void gw_image_free(struct gw_image *image);

static inline size_t gw_image_bytes(const struct gw_image *image)
{
    return (size_t)image->width * image->height * image->channels;
}

/* Reads a PNG file: any colour type, depth and interlacing. Palettes become RGB, transparent colours become
 * alpha, fewer bits than 8 are spread, 16 bits are rounded to 8; gamma and colour profiles are not applied.
 * The errors are those of opening and reading, and -EBADMSG: not PNG, or damaged; -E2BIG: over the limits
 * above. */
int gw_png_read(const char *path, struct gw_image *image, char *err, size_t errlen);
/* The same from memory; `name` stands for it in error lines. */
int gw_png_decode(const void *bytes, size_t len, const char *name, struct gw_image *image, char *err,
                  size_t errlen);

/* Writes a PNG file. The file is touched only when the picture is encoded whole; if it cannot be written
 * whole then, an ordinary file is removed again. */
int gw_png_write(const char *path, const struct gw_image *image, char *err, size_t errlen);
/* The same to memory: *bytes is to be freed by the caller. -ENOMEM, -EINVAL: not a picture. */
int gw_png_encode(const struct gw_image *image, uint8_t **bytes, size_t *len);

/* Cuts out a part, as a picture of its own. -EINVAL: it reaches beyond the edges. */
int gw_image_crop(const struct gw_image *in, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                  struct gw_image *out);

/* Resizes by bicubic interpolation, antialiased where it shrinks. The bytes are those that Pillow's
 * Image.resize(…, BICUBIC) makes of each channel by itself. That holds when it resizes rows before columns,
 * as it does when the sides keep their ratio. */
int gw_image_resize(const struct gw_image *in, uint32_t width, uint32_t height, struct gw_image *out);

/* PSNR in dB of the luma of two pictures of one size, without a border of `border` pixels. They may differ in
 * channels; alpha is ignored. It is INFINITY when they are equal. Returns -EINVAL if the sizes differ, or
 * nothing is left inside the border. */
int gw_image_psnr(const struct gw_image *a, const struct gw_image *b, uint32_t border, double *db);

#endif
