/* SPDX-License-Identifier: Apache-2.0 */
/* PNG files: every kind is read right, what is written comes back, and damaged ones give an error and no
 * more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <png.h>

#include "src/image/image.h"

#define W 29
#define H 13

static uint32_t seed = 2024;

static uint32_t rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* A PNG file of any kind, made by libpng from rows that hold its raw samples. */
struct file {
    uint8_t *bytes;
    size_t len;
};

static void append(png_structp png, png_bytep from, size_t n)
{
    struct file *f = png_get_io_ptr(png);
    f->bytes = realloc(f->bytes, f->len + n);
    memcpy(f->bytes + f->len, from, n);
    f->len += n;
}

static void no_flush(png_structp png)
{
    (void)png;
}

struct kind {
    int type, depth, interlace;
    int transparent;   /* with a tRNS chunk */
    uint32_t channels; /* that reading it gives */
};

static const png_color palette[4] = {{255, 0, 0}, {0, 255, 0}, {10, 20, 30}, {200, 100, 50}};
static png_byte palette_alpha[3] = {255, 128, 0};

static struct file make(const struct kind *k, uint8_t *const *rows)
{
    struct file f = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color_16 key = {.gray = 1, .red = 0x0102, .green = 0x0304, .blue = 0x0506};
    png_set_write_fn(png, &f, append, no_flush);
    png_set_IHDR(png, info, W, H, k->depth, k->type, k->interlace, 0, 0);
    if (k->type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 4);
    if (k->transparent)
        png_set_tRNS(png, info, palette_alpha, 3, k->type == PNG_COLOR_TYPE_PALETTE ? NULL : &key);
    png_set_gAMA(png, info, 1.0 / 1.8);
    png_write_info(png, info);
    png_write_image(png, (png_bytepp)rows);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return f;
}

static const struct kind kinds[] = {
    {PNG_COLOR_TYPE_GRAY, 1, 0, 0, 1},        {PNG_COLOR_TYPE_GRAY, 2, 1, 0, 1},
    {PNG_COLOR_TYPE_GRAY, 4, 0, 1, 2},        {PNG_COLOR_TYPE_GRAY, 8, 0, 0, 1},
    {PNG_COLOR_TYPE_GRAY, 16, 1, 0, 1},       {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 1, 0, 2},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0, 0, 2}, {PNG_COLOR_TYPE_RGB, 8, 0, 0, 3},
    {PNG_COLOR_TYPE_RGB, 8, 1, 0, 3},         {PNG_COLOR_TYPE_RGB, 16, 0, 1, 4},
    {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0, 0, 4},   {PNG_COLOR_TYPE_RGB_ALPHA, 16, 1, 0, 4},
    {PNG_COLOR_TYPE_PALETTE, 2, 0, 0, 3},     {PNG_COLOR_TYPE_PALETTE, 8, 1, 1, 4},
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

static uint32_t samples(const struct kind *k) /* a pixel's, in the file */
{
    switch (k->type) {
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    default: return 1;
    }
}

static uint32_t sample(const struct kind *k, const uint8_t *row, uint32_t i)
{
    if (k->depth == 16) return (uint32_t)(row[2 * i] << 8 | row[2 * i + 1]);
    uint32_t bit = i * (uint32_t)k->depth;
    return row[bit / 8] >> (8 - k->depth - (int)(bit % 8)) & ((1u << k->depth) - 1);
}

/* The value that pixel x of a raw row must have. */
static void expected(const struct kind *k, const uint8_t *row, uint32_t x, uint8_t *to)
{
    uint32_t n = samples(k), most = (1u << k->depth) - 1;
    if (k->type == PNG_COLOR_TYPE_PALETTE) {
        uint32_t i = sample(k, row, x);
        to[0] = palette[i].red;
        to[1] = palette[i].green;
        to[2] = palette[i].blue;
        to[3] = i < 3 ? palette_alpha[i] : 255;
        return;
    }
    for (uint32_t c = 0; c < n; c++) to[c] = (uint8_t)((sample(k, row, x * n + c) * 255 + most / 2) / most);
    if (k->transparent && n == 1) to[1] = sample(k, row, x) == 1 ? 0 : 255;
    if (k->transparent && n == 3)
        to[3] = sample(k, row, 3 * x) == 0x0102 && sample(k, row, 3 * x + 1) == 0x0304 &&
                        sample(k, row, 3 * x + 2) == 0x0506
                    ? 0
                    : 255;
}

static struct file random_file(const struct kind *k, uint8_t raw[H][W * 8])
{
    uint8_t *rows[H];
    for (int y = 0; y < H; y++) {
        rows[y] = raw[y];
        for (int i = 0; i < W * 8; i++)
            raw[y][i] = (uint8_t)(k->type == PNG_COLOR_TYPE_PALETTE && k->depth == 8 ? rnd() % 4 : rnd());
    }
    for (int i = 0; i < 6; i++) /* the transparent colour must occur */
        raw[0][i] = (uint8_t)(i + 1);
    if (k->type == PNG_COLOR_TYPE_PALETTE && k->depth == 8) memset(raw[0], 2, 6);
    return make(k, rows);
}

static void every_kind_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        uint8_t raw[H][W * 8];
        struct file f = random_file(&kinds[i], raw);
        struct gw_image image;
        char err[GW_IMAGE_ERR] = "";
        assert_int_equal(gw_png_decode(f.bytes, f.len, "kind", &image, err, sizeof(err)), 0);
        assert_int_equal(image.width, W);
        assert_int_equal(image.height, H);
        assert_int_equal(image.channels, kinds[i].channels);
        for (uint32_t p = 0; p < W * H; p++) {
            uint8_t want[4];
            expected(&kinds[i], raw[p / W], p % W, want);
            assert_memory_equal(image.data + p * image.channels, want, image.channels);
        }
        gw_image_free(&image);
        free(f.bytes);
    }
}

static struct gw_image random_picture(uint32_t channels)
{
    struct gw_image image;
    assert_int_equal(gw_image_new(&image, 1 + rnd() % 50, 1 + rnd() % 50, channels), 0);
    for (size_t i = 0; i < gw_image_bytes(&image); i++) image.data[i] = (uint8_t)rnd();
    return image;
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    char path[] = "/tmp/gpuwire-test-png-XXXXXX", err[GW_IMAGE_ERR];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (uint32_t channels = 1; channels <= 4; channels++) {
        struct gw_image out = random_picture(channels), in;
        assert_int_equal(gw_png_write(path, &out, err, sizeof(err)), 0);
        assert_int_equal(gw_png_read(path, &in, err, sizeof(err)), 0);
        assert_int_equal(in.width, out.width);
        assert_int_equal(in.height, out.height);
        assert_int_equal(in.channels, channels);
        assert_memory_equal(in.data, out.data, gw_image_bytes(&out));
        gw_image_free(&in);
        gw_image_free(&out);
    }
    unlink(path);
}

static void refused(const void *bytes, size_t len, int rc)
{
    struct gw_image image;
    char err[GW_IMAGE_ERR] = "";
    assert_int_equal(gw_png_decode(bytes, len, "bad.png", &image, err, sizeof(err)), rc);
    assert_null(image.data);
    assert_true(strncmp(err, "bad.png: ", 9) == 0 && strlen(err) > 12 && !strchr(err, '\n'));
    assert_int_equal(gw_png_decode(bytes, len, "bad.png", &image, NULL, 0), rc);
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        uint8_t raw[H][W * 8];
        struct file f = random_file(&kinds[i], raw);
        for (size_t len = 0; len < f.len; len++) {
            /* A copy of just that size, so that a sanitizer sees the first byte read too many. */
            uint8_t *cut = malloc(len ? len : 1);
            memcpy(cut, f.bytes, len);
            refused(cut, len, -EBADMSG);
            free(cut);
        }
        free(f.bytes);
    }
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    unsigned read = 0, bad = 0;
    for (int round = 0; round < 4000; round++) {
        uint8_t raw[H][W * 8];
        struct file f = random_file(&kinds[rnd() % KINDS], raw);
        for (uint32_t n = 1 + rnd() % 3; n; n--) f.bytes[8 + rnd() % (f.len - 8)] = (uint8_t)rnd();
        struct gw_image image;
        char err[GW_IMAGE_ERR] = "";
        int rc = gw_png_decode(f.bytes, f.len, "bad.png", &image, err, sizeof(err));
        assert_true(rc == 0 || rc == -EBADMSG || rc == -E2BIG);
        assert_true((rc == 0) == (image.data != NULL));
        rc ? bad++ : read++;
        gw_image_free(&image);
        free(f.bytes);
    }
    assert_true(bad > 2000);
    assert_true(read > 0); /* damage to what is not needed: a byte that was as it is, a chunk of no use */
}

static void put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* The size in the header, with a checksum that fits: nothing of that size may be allocated. */
static void huge_sizes_are_refused(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{32768, 2049}, {32769, 1}, {1, 0x7fffffff}, {0x7fffffff, 0x7fffffff},
                                        {0, 5},        {5, 0},     {0x80000000, 1}, {UINT32_MAX, UINT32_MAX}};
    uint8_t raw[H][W * 8];
    struct file f = random_file(&kinds[3], raw);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        put32(f.bytes + 16, sizes[i][0]);
        put32(f.bytes + 20, sizes[i][1]);
        uint32_t crc = UINT32_MAX;
        for (int j = 12; j < 29; j++) {
            crc ^= f.bytes[j];
            for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        put32(f.bytes + 29, ~crc);
        refused(f.bytes, f.len, i ? -EBADMSG : -E2BIG);
    }
    free(f.bytes);
    refused("GIF89a, not PNG at all", 22, -EBADMSG);
    refused("", 0, -EBADMSG);
}

static void files_that_cannot_be_opened(void **state)
{
    (void)state;
    struct gw_image image;
    char err[GW_IMAGE_ERR], small[8];
    assert_int_equal(gw_png_read("/no/such/file.png", &image, err, sizeof(err)), -ENOENT);
    assert_string_equal(err, "/no/such/file.png: No such file or directory");
    assert_int_equal(gw_png_read("/tmp", &image, err, sizeof(err)), -EISDIR);
    assert_int_equal(gw_png_read("/dev/null", &image, err, sizeof(err)), -EBADMSG);
    assert_string_equal(err, "/dev/null: not a PNG picture");
    assert_int_equal(gw_png_read("/no/such/file.png", &image, small, sizeof(small)), -ENOENT);
    assert_string_equal(small, "/no/suc");
    image = random_picture(3);
    assert_int_equal(gw_png_write("/no/such/file.png", &image, err, sizeof(err)), -ENOENT);
    assert_string_equal(err, "/no/such/file.png: No such file or directory");
    assert_int_equal(gw_png_write("/dev/full", &image, err, sizeof(err)), -ENOSPC);
    assert_int_equal(access("/dev/full", F_OK), 0);
    gw_image_free(&image);
    assert_int_equal(gw_png_write("/dev/full", &image, err, sizeof(err)), -EINVAL);
}

static void pictures_have_limits(void **state)
{
    (void)state;
    struct gw_image image;
    assert_int_equal(gw_image_new(&image, 0, 1, 3), -EINVAL);
    assert_int_equal(gw_image_new(&image, 1, 1, 0), -EINVAL);
    assert_int_equal(gw_image_new(&image, 1, 1, 5), -EINVAL);
    assert_int_equal(gw_image_new(&image, GW_IMAGE_MAX_SIDE + 1, 1, 1), -E2BIG);
    assert_int_equal(gw_image_new(&image, 16384, 4097, 1), -E2BIG);
    assert_null(image.data);
    gw_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read),          cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(truncated_files_are_refused), cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(huge_sizes_are_refused),      cmocka_unit_test(files_that_cannot_be_opened),
        cmocka_unit_test(pictures_have_limits),
    };
    printf("seed %u\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
