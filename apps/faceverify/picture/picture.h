/* SPDX-License-Identifier: Apache-2.0 */
/* Grey pictures from PNG and JPEG files. The files may come from anybody: what is read is bounded in
 * size, and a file that makes no sense is an error.
 *
 * Functions return 0, or a negative errno with gw_last_error(). They keep no state: any thread. */
#ifndef FACE_PICTURE_PICTURE_H
#define FACE_PICTURE_PICTURE_H

#include <stddef.h>
#include <stdint.h>

enum {
    FACE_MAX_FILE = 64 << 20,   /* bytes of a file */
    FACE_MAX_WIDTH = 16384,     /* pixels wide or high */
    FACE_MAX_PIXELS = 64 << 20, /* in all */
};

struct face_picture {
    uint32_t width, height;
    uint8_t *grey; /* rows from the top */
};

/* Reads a file. Colours become luma, and alpha lies on white. EXIF data turn the picture.
 * -EBADMSG: neither PNG nor JPEG, or damaged; -E2BIG: over the limits above; -ENOMEM; those of opening and
 * reading. `name` stands for the file in messages. On failure *picture is empty. */
int face_picture_read(const char *path, struct face_picture *picture);
int face_picture_decode(const void *bytes, size_t size, const char *name, struct face_picture *picture);
/* Writes a grey PNG file. */
int face_picture_write(const char *path, const struct face_picture *picture);
void face_picture_free(struct face_picture *picture);

/* ---- for the decoders */

int face_png_decode(const uint8_t *bytes, size_t size, const char *name, struct face_picture *picture,
                    uint32_t *turn);
int face_jpeg_decode(const uint8_t *bytes, size_t size, const char *name, struct face_picture *picture,
                     uint32_t *turn);
/* Allocates the pixels. -E2BIG, -ENOMEM, -EBADMSG (no pixels). */
int face_picture_new(struct face_picture *picture, uint64_t width, uint64_t height, const char *name);
/* The orientation in EXIF data, which begin with their TIFF header: 1 … 8; 1: they say none. */
uint32_t face_exif_turn(const uint8_t *tiff, size_t size);

#endif
