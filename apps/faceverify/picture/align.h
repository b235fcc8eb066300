/* SPDX-License-Identifier: Apache-2.0 */
/* From a picture and the places of its eyes to the 136 by 136 pixels that a request has. */
#ifndef FACE_PICTURE_ALIGN_H
#define FACE_PICTURE_ALIGN_H

#include "apps/faceverify/face.h"
#include "apps/faceverify/faces/draw.h"
#include "apps/faceverify/picture/picture.h"

/* Turns, scales and shifts the picture so that its eyes lie at FACE_EYES_ALIGNED. -ERANGE: the eyes are
 * less than 8 pixels apart, or outside the picture; -ENOMEM. */
int face_align(const struct face_picture *picture, const struct face_eyes *eyes, uint8_t pixels[FACE_PIXELS]);

/* "X1,Y1,X2,Y2", or with blanks: the eyes in either order. -EINVAL: it is not that. */
int face_eyes_parse(const char *text, struct face_eyes *eyes);
/* The same from the file beside a picture: its name with .eyes for .png or .jpg. -ENOENT without a
 * message: there is none. */
int face_eyes_beside(const char *picture_path, struct face_eyes *eyes);
/* Looks for the eyes. -ENOENT: it sees none, or is not sure; the message asks for --eyes. */
int face_eyes_find(const struct face_picture *picture, const char *name, struct face_eyes *eyes);

#endif
