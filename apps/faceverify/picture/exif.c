/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the orientation in EXIF data: a tag of the first directory of a TIFF file. */
#include <stdbool.h>
#include <string.h>

#include "apps/faceverify/picture/picture.h"

enum { TAG_ORIENTATION = 0x112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

static uint32_t exif_number(const uint8_t *at, uint32_t bytes, bool big)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < bytes; i++) n |= (uint32_t)at[big ? bytes - 1 - i : i] << 8 * i;
    return n;
}

uint32_t face_exif_turn(const uint8_t *tiff, size_t size)
{
    if (size < 8 || (memcmp(tiff, "II*\0", 4) && memcmp(tiff, "MM\0*", 4))) return 1;
    bool big = tiff[0] == 'M';
    size_t at = exif_number(tiff + 4, 4, big);
    if (at > size - 2) return 1;
    uint32_t entries = exif_number(tiff + at, 2, big);
    for (at += 2; entries && size - at >= ENTRY_BYTES; entries--, at += ENTRY_BYTES) {
        const uint8_t *entry = tiff + at;
        if (exif_number(entry, 2, big) != TAG_ORIENTATION) continue;
        uint32_t turn = exif_number(entry + 8, 2, big);
        return exif_number(entry + 2, 2, big) == TYPE_SHORT && turn >= 1 && turn <= 8 ? turn : 1;
    }
    return 1;
}
