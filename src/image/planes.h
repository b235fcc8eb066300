/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as planes of floats, one a channel: luma and colour differences, resizing.
 *
 * The colours are ITU-R BT.601's in full range, as in JPEG files: luma Y from 0 to 1, colour differences Cb
 * and Cr around 128/255. Values beyond [0, 1] are kept until pixels are made of them again. */
#ifndef GW_IMAGE_PLANES_H
#define GW_IMAGE_PLANES_H

#include "src/image/image.h"

/* Fills the planes (width * height floats each) from a picture. `cb`, `cr` and `alpha` may be NULL. Of a grey
 * picture Cb and Cr are all 128/255; without an alpha channel alpha is all 1. */
void gw_planes_from_image(const struct gw_image *image, float *y, float *cb, float *cr, float *alpha);

/* The other way: fills the picture's pixels, rounded and limited to 0…255; what is not a number becomes 0.
 * Which planes it reads depends on the picture's channels; those it does not need may be NULL. */
void gw_planes_to_image(const float *y, const float *cb, const float *cr, const float *alpha,
                        struct gw_image *image);

/* Bicubic resizing (a = -0.5, antialiased where it shrinks) from one size to another: the taps are worked out
 * once. */
struct gw_resizer;

/* -EINVAL: a side of 0. -E2BIG: a size over the limits of pictures. -ENOMEM. */
int gw_resizer_new(uint32_t in_width, uint32_t in_height, uint32_t out_width, uint32_t out_height,
                   struct gw_resizer **resizer);
void gw_resizer_free(struct gw_resizer *resizer);
/* Resizes a plane. Allocates nothing; the resizer's scratch memory makes it one thread's at a time. */
void gw_resizer_run(struct gw_resizer *resizer, const float *in, float *out);

/* PSNR in dB of two planes in [0, 1] of one size, without the border; INFINITY when equal. -EINVAL: nothing
 * inside. */
int gw_plane_psnr(const float *a, const float *b, uint32_t width, uint32_t height, uint32_t border,
                  double *db);

#endif
