/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes at all, read as the header of an .npy file: an error, or a shape that fills the file exactly. */
#include <stdlib.h>

#include "apps/mapreduce/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t head[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0}, *file;
    uint64_t whole = 0;
    struct mr_npy npy;

    if (size < 9 || size > 4096) return 0;
    /* The magic bytes, a version and the right length in front: else nothing gets beyond them. */
    memcpy(&whole, data, 8);
    whole %= 1 << 20;
    head[6] = 1 + data[8] % 3;
    head[8] = (uint8_t)(size - 9);
    head[9] = (uint8_t)((size - 9) >> 8);
    file = (uint8_t *)malloc(sizeof(head) + size - 9);
    if (!file) return 0;
    memcpy(file, head, sizeof(head));
    memcpy(file + (head[6] == 1 ? 10 : 12), data + 9, size - 9);
    if (!mr_npy_parse(file, (head[6] == 1 ? 10 : 12) + size - 9, whole, "fuzz", &npy) &&
        (npy.start > whole || npy.start + npy.rows * npy.columns * npy.item != whole))
        abort();
    free(file);
    return 0;
}
