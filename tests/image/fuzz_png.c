/* Any bytes at all, read as a PNG file: an error or a picture, and a picture can be written and read again. */
#include <stdlib.h>
#include <string.h>

#include "src/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_image image, again;
    char err[GW_IMAGE_ERR];
    /* A header alone may ask for 256 MiB; that is allowed, but slow to do a million times. */
    if (size >= 24 && (data[16] | data[17] | data[20] | data[21]))
        return 0;
    if (gw_png_decode(data, size, "fuzz", &image, err, sizeof(err))) {
        if (!err[0] || strchr(err, '\n'))
            abort();
        return 0;
    }
    uint8_t *bytes;
    size_t len;
    if (gw_png_encode(&image, &bytes, &len) || gw_png_decode(bytes, len, "again", &again, err, sizeof(err)) ||
        gw_image_bytes(&again) != gw_image_bytes(&image) || memcmp(again.data, image.data, gw_image_bytes(&image)))
        abort();
    free(bytes);
    gw_image_free(&again);
    gw_image_free(&image);
    return 0;
}
