/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of all kinds, and files that are none: what comes out is right, or an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

#include <gpuwire/error.h>

#include "apps/faceverify/face.h"
#include "apps/faceverify/picture/align.h"
#include "apps/faceverify/picture/picture.h"

enum { W = 24, H = 16 };

/* Grows to the right and downwards, and is equal nowhere: its corners tell how it lies. */
static uint8_t shade(uint32_t x, uint32_t y)
{
    return (uint8_t)(20 + x * 6 + y * 5);
}

struct bytes {
    unsigned char *data;
    size_t size;
};

/* ---- files ---- */

struct png_kind {
    const char *name;
    int type, depth, interlace;
};

static void png_append(png_structp png, png_bytep data, png_size_t size)
{
    struct bytes *b = png_get_io_ptr(png);
    b->data = realloc(b->data, b->size + size);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void png_flushed(png_structp png)
{
    (void)png;
}

/* One row of samples, before they are packed into bits. */
static void png_row(const struct png_kind *k, uint32_t y, uint8_t *row)
{
    static const uint8_t channels[] = {1, 0, 3, 1, 2, 0, 4};
    uint32_t n = channels[k->type], at = 0;
    for (uint32_t x = 0; x < W; x++)
        for (uint32_t c = 0; c < n; c++) {
            int alpha = (k->type & PNG_COLOR_MASK_ALPHA) && c == n - 1;
            uint8_t v = alpha ? 255 : shade(x, y);
            if (k->depth == 16) row[at++] = v;
            if (k->depth >= 8)
                row[at++] = v;
            else if (v >> 7)
                row[x / 8] |= (uint8_t)(0x80 >> x % 8);
        }
}

static struct bytes png_file(const struct png_kind *k)
{
    struct bytes b = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &b, png_append, png_flushed);
    png_set_IHDR(png, info, W, H, k->depth, k->type, k->interlace, 0, 0);
    png_color palette[256];
    for (int i = 0; i < 256; i++) palette[i] = (png_color){(png_byte)i, (png_byte)i, (png_byte)i};
    if (k->type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 256);
    png_write_info(png, info);
    uint8_t rows[H][W * 8] = {{0}};
    png_bytep row[H];
    for (uint32_t y = 0; y < H; y++) png_row(k, y, row[y] = rows[y]);
    png_write_image(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return b;
}

struct jpeg_kind {
    const char *name;
    J_COLOR_SPACE in, file;
    int progressive, turn; /* turn: EXIF's; 0: there are no EXIF data */
};

static void jpeg_exif(struct jpeg_compress_struct *jpeg, int turn)
{
    uint8_t exif[] = {'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, '*',           0, 0, 0, 8, 0, 1,
                      1,   0x12, 0,   3,   0, 0, 0,   1,   0, (uint8_t)turn, 0, 0};
    if (turn) jpeg_write_marker(jpeg, JPEG_APP0 + 1, exif, sizeof(exif));
}

static struct bytes jpeg_file(const struct jpeg_kind *k)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned long size = 0;
    struct bytes b = {0};
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &b.data, &size);
    jpeg.image_width = W;
    jpeg.image_height = H;
    jpeg.in_color_space = k->in;
    jpeg.input_components = k->in == JCS_GRAYSCALE ? 1 : k->in == JCS_CMYK ? 4 : 3;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, k->file);
    jpeg_set_quality(&jpeg, 98, TRUE);
    if (k->progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    jpeg_exif(&jpeg, k->turn);
    for (uint32_t y = 0; y < H; y++) {
        uint8_t row[W * 4];
        JSAMPROW at = row;
        for (uint32_t x = 0; x < W; x++)
            for (int c = 0; c < jpeg.input_components; c++) /* Adobe's CMYK is inverted: black 255 is none */
                row[x * (uint32_t)jpeg.input_components + (uint32_t)c] = c == 3 ? 255 : shade(x, y);
        jpeg_write_scanlines(&jpeg, &at, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    b.size = size;
    return b;
}

static const struct png_kind png_kinds[] = {
    {"grey", PNG_COLOR_TYPE_GRAY, 8, 0},       {"grey of 16 bits", PNG_COLOR_TYPE_GRAY, 16, 0},
    {"RGB", PNG_COLOR_TYPE_RGB, 8, 0},         {"RGB of 16 bits, interlaced", PNG_COLOR_TYPE_RGB, 16, 1},
    {"RGBA", PNG_COLOR_TYPE_RGB_ALPHA, 8, 0},  {"grey and alpha", PNG_COLOR_TYPE_GRAY_ALPHA, 16, 1},
    {"palette", PNG_COLOR_TYPE_PALETTE, 8, 1},
};
static const struct jpeg_kind jpeg_kinds[] = {
    {"grey", JCS_GRAYSCALE, JCS_GRAYSCALE, 0, 0}, {"YCbCr", JCS_RGB, JCS_YCbCr, 0, 0},
    {"progressive", JCS_RGB, JCS_YCbCr, 1, 0},    {"RGB", JCS_RGB, JCS_RGB, 0, 1},
    {"CMYK", JCS_CMYK, JCS_CMYK, 0, 0},           {"YCCK", JCS_CMYK, JCS_YCCK, 0, 0},
};
enum {
    PNG_KINDS = sizeof(png_kinds) / sizeof(png_kinds[0]),
    JPEG_KINDS = sizeof(jpeg_kinds) / sizeof(jpeg_kinds[0])
};

/* ---- what comes out ---- */

static void expect_shades(const struct bytes *b, const char *name, int slack)
{
    struct face_picture p;
    int err = face_picture_decode(b->data, b->size, name, &p);
    if (err) print_message("%s: %s\n", name, gw_last_error());
    assert_int_equal(err, 0);
    assert_int_equal(p.width, W);
    assert_int_equal(p.height, H);
    for (uint32_t y = 0; y < H; y++)
        for (uint32_t x = 0; x < W; x++)
            if (abs(p.grey[y * W + x] - shade(x, y)) > slack)
                fail_msg("%s: %u at %u, %u", name, p.grey[y * W + x], x, y);
    face_picture_free(&p);
}

static void every_kind_is_read(void **state)
{
    (void)state;
    for (int i = 0; i < PNG_KINDS; i++) {
        struct bytes b = png_file(&png_kinds[i]);
        expect_shades(&b, png_kinds[i].name, 1);
        free(b.data);
    }
    for (int i = 0; i < JPEG_KINDS; i++) {
        struct bytes b = jpeg_file(&jpeg_kinds[i]);
        expect_shades(&b, jpeg_kinds[i].name, 5);
        free(b.data);
    }
}

static void bits_are_spread(void **state)
{
    (void)state;
    struct png_kind bit = {"1 bit", PNG_COLOR_TYPE_GRAY, 1, 0};
    struct bytes b = png_file(&bit);
    struct face_picture p;
    assert_int_equal(face_picture_decode(b.data, b.size, "bit", &p), 0);
    for (uint32_t i = 0; i < W * H; i++) assert_int_equal(p.grey[i], shade(i % W, i / W) >> 7 ? 255 : 0);
    face_picture_free(&p);
    free(b.data);
}

/* The corner that is stored first, and the next along its row, for each of EXIF's eight orientations. */
static void exif_turns_it(void **state)
{
    (void)state;
    for (int turn = 1; turn <= 8; turn++) {
        struct jpeg_kind k = {"turned", JCS_GRAYSCALE, JCS_GRAYSCALE, 0, turn};
        struct bytes b = jpeg_file(&k);
        struct face_picture p;
        assert_int_equal(face_picture_decode(b.data, b.size, "turned", &p), 0);
        int side = turn >= 5, right = turn == 2 || turn == 3 || turn == 6 || turn == 7;
        int low = turn == 3 || turn == 4 || turn == 7 || turn == 8;
        uint32_t x0 = right ? p.width - 1 : 0, y0 = low ? p.height - 1 : 0;
        assert_int_equal(p.width, side ? H : W);
        assert_true(abs(p.grey[y0 * p.width + x0] - shade(0, 0)) < 5);
        uint32_t x1 = side ? x0 : p.width - 1 - x0,
                 y1 = side ? p.height - 1 - y0 : y0; /* the end of the first stored row */
        assert_true(abs(p.grey[y1 * p.width + x1] - shade(W - 1, 0)) < 5);
        face_picture_free(&p);
        free(b.data);
    }
}

static void alpha_lies_on_white(void **state)
{
    (void)state;
    uint8_t pixel[] = {0, 0, 0, 0, 100, 100, 100, 255};
    png_image image = {.version = PNG_IMAGE_VERSION, .width = 2, .height = 1, .format = PNG_FORMAT_RGBA};
    uint8_t file[1000];
    png_alloc_size_t size = sizeof(file);
    struct face_picture p;
    assert_true(png_image_write_to_memory(&image, file, &size, 0, pixel, 0, NULL));
    assert_int_equal(face_picture_decode(file, size, "alpha", &p), 0);
    assert_int_equal(p.grey[0], 255);
    assert_true(abs(p.grey[1] - 100) <= 1);
    face_picture_free(&p);
}

/* ---- hostile files ---- */

static void truncated_files_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < PNG_KINDS + JPEG_KINDS; i++) {
        struct bytes b = i < PNG_KINDS ? png_file(&png_kinds[i]) : jpeg_file(&jpeg_kinds[i - PNG_KINDS]);
        /* What follows a PNG's last pixels is not looked at, nor is a JPEG's end mark needed. */
        for (size_t size = 0; size + 24 < b.size; size++) {
            unsigned char *copy = malloc(size + 1); /* the end where a checker sees it */
            struct face_picture p;
            memcpy(copy, b.data, size);
            assert_true(face_picture_decode(copy, size, "cut", &p) < 0);
            assert_null(p.grey);
            free(copy);
        }
        free(b.data);
    }
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < PNG_KINDS + JPEG_KINDS; i++) {
        struct bytes b = i < PNG_KINDS ? png_file(&png_kinds[i]) : jpeg_file(&jpeg_kinds[i - PNG_KINDS]);
        for (int k = 0; k < 1500; k++) {
            struct face_picture p;
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            size_t at = (random >> 33) % b.size;
            unsigned char old = b.data[at];
            b.data[at] = (unsigned char)(random >> 24);
            if (!face_picture_decode(b.data, b.size, "damaged", &p)) face_picture_free(&p);
            b.data[at] = old;
        }
        free(b.data);
    }
}

/* Says another size in a PNG's or JPEG's head. */
static int decode_sized(uint32_t width, uint32_t height, int png)
{
    struct bytes b = png ? png_file(&png_kinds[0]) : jpeg_file(&jpeg_kinds[1]);
    struct face_picture p;
    if (png) {
        uint32_t size[2] = {htobe32(width), htobe32(height)}, crc;
        memcpy(b.data + 16, size, 8);
        crc = 0xffffffff;
        for (int i = 12; i < 29; i++) {
            crc ^= b.data[i];
            for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        crc = htobe32(~crc);
        memcpy(b.data + 29, &crc, 4);
    } else
        for (size_t i = 0; i + 9 < b.size; i++)
            if (b.data[i] == 0xff && b.data[i + 1] == 0xc0) {
                uint8_t size[4] = {(uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8),
                                   (uint8_t)width};
                memcpy(b.data + i + 5, size, 4);
                break;
            }
    int err = face_picture_decode(b.data, b.size, "bomb", &p);
    face_picture_free(&p);
    free(b.data);
    return err;
}

static void bombs_are_refused(void **state)
{
    (void)state;
    for (int png = 0; png < 2; png++) {
        assert_true(decode_sized(20000, 10, png) < 0);
        assert_true(decode_sized(16000, 16000, png) < 0);
        assert_true(decode_sized(65500, 65500, png) < 0);
        assert_true(decode_sized(0, 16, png) < 0);
        assert_true(decode_sized(16384, 4096, png) < 0); /* as large as may be, but the data end */
    }
    assert_int_equal(decode_sized(16000, 16000, 1), -E2BIG);
    assert_int_equal(decode_sized(16000, 16000, 0), -E2BIG);
}

static void what_is_no_picture_is_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/faceverify-XXXXXX", path[64];
    struct face_picture p;
    assert_int_equal(face_picture_decode("GIF89a", 6, "x", &p), -EBADMSG);
    assert_int_equal(face_picture_decode("", 0, "x", &p), -EBADMSG);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/p", folder);
    assert_int_equal(face_picture_read(path, &p), -ENOENT);
    assert_int_equal(face_picture_read(folder, &p), -EINVAL);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(face_picture_read(path, &p), -EINVAL);
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(ftruncate(fd, (off_t)FACE_MAX_FILE + 1), 0);
    close(fd);
    assert_int_equal(face_picture_read(path, &p), -E2BIG);
    unlink(path);
    rmdir(folder);
}

static void hostile_exif_is_ignored(void **state)
{
    (void)state;
    uint8_t tiff[26] = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
    assert_int_equal(face_exif_turn(tiff, sizeof(tiff)), 6);
    for (size_t size = 0; size < 22; size++) {
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, tiff, size);
        assert_int_equal(face_exif_turn(copy, size), 1);
        free(copy);
    }
    tiff[18] = 9;
    assert_int_equal(face_exif_turn(tiff, sizeof(tiff)), 1);
    memset(tiff + 4, 0xff, 4);
    assert_int_equal(face_exif_turn(tiff, sizeof(tiff)), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read),
        cmocka_unit_test(bits_are_spread),
        cmocka_unit_test(exif_turns_it),
        cmocka_unit_test(alpha_lies_on_white),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(what_is_no_picture_is_refused),
        cmocka_unit_test(hostile_exif_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
