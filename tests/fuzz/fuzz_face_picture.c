/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes at all as a picture for faceverify: an error, or a picture that can be aligned. As in
 * fuzz_png, a PNG file's checksums are made right, since random bytes never match them. The first byte
 * says what the rest is. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "apps/faceverify/picture/align.h"
#include "apps/faceverify/picture/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_MAX = 16384 };

static void put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Chunks of length, type, data and checksum: lengths are cut to what is there, checksums are made right. */
static void mend_chunks(uint8_t *bytes, size_t size)
{
    for (size_t at = 8; size - at >= 12 && at < size;) {
        uint32_t most = (uint32_t)(size - at - 12),
                 len = ((uint32_t)bytes[at + 2] << 8 | bytes[at + 3]) % (most + 1);
        put32(bytes + at, len);
        put32(bytes + at + 8 + len, (uint32_t)crc32(0, bytes + at + 4, len + 4));
        at += len + 12;
    }
}

static void decode(const uint8_t *bytes, size_t size)
{
    struct face_picture p;
    uint8_t pixels[FACE_PIXELS];
    struct face_eyes eyes;
    if (face_picture_decode(bytes, size, "input", &p)) return;
    eyes = (struct face_eyes){{0, (float)(p.width - 1)}, {0, (float)(p.height - 1)}};
    if (p.width * p.height <= 4096) {
        face_align(&p, &eyes, pixels);
        if (!face_eyes_find(&p, "input", &eyes)) face_align(&p, &eyes, pixels);
    }
    face_picture_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[FILE_MAX];
    struct face_eyes eyes;
    if (size < 2 || size > FILE_MAX - 8) return 0;
    int kind = data[0] % 4;
    memcpy(file, kind == 1 ? "\x89PNG\r\n\x1a\n" : "\xff\xd8\xff\0\0\0\0", 8);
    size_t head = kind == 1 ? 8 : kind == 2 ? 3 : 0, n = head + size - 1;
    memcpy(file + head, data + 1, size - 1);
    if (kind == 1) mend_chunks(file, n);
    file[n] = 0;
    if (kind == 3) {
        face_exif_turn(file, n);
        face_eyes_parse((const char *)file, &eyes);
    } else
        decode(file, n);
    return 0;
}
