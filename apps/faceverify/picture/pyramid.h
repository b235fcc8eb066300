/* SPDX-License-Identifier: Apache-2.0 */
/* A picture in halves, quarters, …, so that it can be looked at through pixels of any size. */
#ifndef FACE_PICTURE_PYRAMID_H
#define FACE_PICTURE_PYRAMID_H

#include "apps/faceverify/picture/picture.h"

enum { FACE_LEVELS = 15 };

struct face_pyramid {
    uint32_t levels;
    struct face_picture level[FACE_LEVELS]; /* [0] is the picture itself, and stays its owner's */
};

/* -ENOMEM; then nothing needs freeing. */
int face_pyramid_new(const struct face_picture *picture, struct face_pyramid *pyramid);
void face_pyramid_free(struct face_pyramid *pyramid);

/* What a camera with pixels of `step` pixels of the picture sees around x, y: 0 … 255. Beyond its border
 * the nearest pixel counts. */
float face_pyramid_at(const struct face_pyramid *pyramid, float x, float y, float step);

#endif
