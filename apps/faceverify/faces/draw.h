/* SPDX-License-Identifier: Apache-2.0 */
/* Draws grey faces of people who do not exist: parameters by rule, from a seed. Nothing here comes from
 * a photograph. */
#ifndef FACE_FACES_DRAW_H
#define FACE_FACES_DRAW_H

#include <stdint.h>

/* Where the eyes' centres are, in pixels; [0] is the eye that stands left in the picture. */
struct face_eyes {
    float x[2], y[2];
};

/* Which picture: the same three numbers always give the same one. Pictures of one person differ in light,
 * pose, expression and noise. */
struct face_sitting {
    uint64_t seed;
    uint32_t person, picture;
    float spread; /* how much pictures of one person differ: 1 is usual, 0 makes them equal */
};

/* Draws a picture of width * height pixels, with the face somewhere near the middle. *eyes, unless NULL,
 * says where they are. It allocates nothing; any thread. */
void face_draw(const struct face_sitting *face, uint32_t width, uint32_t height, uint8_t *grey,
               struct face_eyes *eyes);

/* Draws it so that the eyes lie at `eyes`, but for an error of about `slip` pixels: what an alignment
 * gives. */
void face_draw_aligned(const struct face_sitting *face, uint32_t width, uint32_t height,
                       const struct face_eyes *eyes, float slip, uint8_t *grey);

#endif
