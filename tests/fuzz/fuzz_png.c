/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes at all, read as a PNG file: an error or a picture, and a picture can be written and read again.
 *
 * Every chunk of a PNG file ends in a checksum, which random bytes never match. So the fuzzer takes the bytes
 * as a list of chunks, and makes a file of them whose checksums are right. The contents of IDAT chunks are
 * compressed here. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "src/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_MAX 65536

struct file {
    uint8_t bytes[FILE_MAX];
    size_t len;
};

static void put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put_chunk(struct file *f, const char *type, const uint8_t *data, size_t len)
{
    uint8_t *at = f->bytes + f->len;
    if (len + 12 > FILE_MAX - f->len) return;
    put32(at, (uint32_t)len);
    memcpy(at + 4, type, 4);
    memcpy(at + 8, data, len);
    put32(at + 8 + len, (uint32_t)crc32(0, at + 4, (uInt)len + 4));
    f->len += len + 12;
}

static void put_pixels(struct file *f, const uint8_t *data, size_t len)
{
    uint8_t packed[8192];
    uLongf n = sizeof(packed);
    if (compress2(packed, &n, data, len, 1) == Z_OK) put_chunk(f, "IDAT", packed, n);
}

static size_t put_header(struct file *f, const uint8_t *data, size_t size)
{
    uint8_t header[13] = {0};
    if (size < 6) return size;
    header[3] = data[0]; /* small: a size of hundreds of megabytes is allowed, but slow a million times */
    header[7] = data[1];
    header[6] = data[2] >> 7;
    header[8] = data[3];
    header[9] = data[4];
    header[12] = data[5];
    put_chunk(f, "IHDR", header, sizeof(header));
    return 6;
}

/* A chunk: its kind, its length (two bytes), what it holds. */
static size_t put_next(struct file *f, const uint8_t *data, size_t size)
{
    static const char *const types[] = {"PLTE", "tRNS", "gAMA", "IEND", "zTXt",
                                        "iCCP", "sBIT", "bKGD", "eXIf", "IHDR"};
    size_t kinds = sizeof(types) / sizeof(*types);
    if (size < 3) return size;
    size_t len = (size_t)(data[1] | data[2] << 8) % (size - 2);
    if (data[0] % 16 < kinds)
        put_chunk(f, types[data[0] % 16], data + 3, len);
    else if (data[0] % 16 < 14)
        put_pixels(f, data + 3, len);
    else
        put_chunk(f, "IDAT", data + 3, len);
    return len + 3;
}

static void check(const uint8_t *bytes, size_t len)
{
    struct gw_image image, again;
    char err[GW_IMAGE_ERR] = "";
    if (gw_png_decode(bytes, len, "fuzz", &image, err, sizeof(err))) {
        if (!err[0] || strchr(err, '\n')) abort();
        return;
    }
    uint8_t *copy;
    if (gw_png_encode(&image, &copy, &len) || gw_png_decode(copy, len, "again", &again, err, sizeof(err)) ||
        gw_image_bytes(&again) != gw_image_bytes(&image) ||
        memcmp(again.data, image.data, gw_image_bytes(&image)))
        abort();
    free(copy);
    gw_image_free(&again);
    gw_image_free(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct file f;
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (!size) return 0;
    memcpy(f.bytes, signature, sizeof(signature));
    f.len = sizeof(signature);
    int ends = data[0] & 1; /* else the file just stops */
    size_t at = 1;
    at += put_header(&f, data + at, size - at);
    while (at < size) at += put_next(&f, data + at, size - at);
    if (ends) put_chunk(&f, "IEND", f.bytes, 0);
    uint8_t *exact = malloc(f.len); /* so that the sanitizer sees a read beyond the end */
    if (!exact) return 0;
    memcpy(exact, f.bytes, f.len);
    check(exact, f.len);
    free(exact);
    return 0;
}
