/* SPDX-License-Identifier: Apache-2.0 */
/* Writing PNG files with libpng: to memory first, so that a file is written whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/image/image.h"

struct writer {
    uint8_t *bytes;
    size_t len, room;
    png_structp png;
    png_infop info;
    int rc;
};

static void png_write_on_error(png_structp png, png_const_charp message)
{
    struct writer *w = png_get_error_ptr(png);
    (void)message; /* memory is all that can be short: the arguments are checked before */
    w->rc = -ENOMEM;
    png_longjmp(png, 1);
}

static void png_write_on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_write(png_structp png, png_bytep from, size_t n)
{
    struct writer *w = png_get_io_ptr(png);
    if (n > w->room - w->len) {
        size_t room = w->room ? w->room : 1 << 16;
        while (n > room - w->len) room *= 2;
        uint8_t *larger = realloc(w->bytes, room);
        if (!larger) png_error(png, "memory");
        w->bytes = larger;
        w->room = room;
    }
    memcpy(w->bytes + w->len, from, n);
    w->len += n;
}

static void on_flush(png_structp png)
{
    (void)png;
}

static void encode(struct writer *w, const struct gw_image *image)
{
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGB_ALPHA};
    size_t row = (size_t)image->width * image->channels;
    if (setjmp(png_jmpbuf(w->png))) return;
    png_set_write_fn(w->png, w, on_write, on_flush);
    png_set_user_limits(w->png, GW_IMAGE_MAX_SIDE, GW_IMAGE_MAX_SIDE);
    png_set_IHDR(w->png, w->info, image->width, image->height, 8, types[image->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->png, w->info);
    for (uint32_t y = 0; y < image->height; y++) png_write_row(w->png, image->data + y * row);
    png_write_end(w->png, NULL);
}

int gw_png_encode(const struct gw_image *image, uint8_t **bytes, size_t *len)
{
    struct writer w = {0};
    *bytes = NULL;
    *len = 0;
    if (!image->data || !image->width || !image->height || image->channels < 1 || image->channels > 4)
        return -EINVAL;
    w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, png_write_on_error, png_write_on_warning);
    w.info = w.png ? png_create_info_struct(w.png) : NULL;
    if (w.info)
        encode(&w, image);
    else
        w.rc = -ENOMEM;
    png_destroy_write_struct(&w.png, &w.info);
    if (w.rc) {
        free(w.bytes);
        return w.rc;
    }
    *bytes = w.bytes;
    *len = w.len;
    return 0;
}

static int png_write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static int png_write_file(const char *path, const uint8_t *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return -errno;
    struct stat st;
    int ordinary = !fstat(fd, &st) && S_ISREG(st.st_mode);
    int err = png_write_all(fd, bytes, len);
    if (close(fd) && !err) err = -errno;
    if (err && ordinary) unlink(path);
    return err;
}

int gw_png_write(const char *path, const struct gw_image *image, char *why, size_t errlen)
{
    uint8_t *bytes;
    size_t len;
    int err = gw_png_encode(image, &bytes, &len);
    if (!err) err = png_write_file(path, bytes, len);
    free(bytes);
    if (err && why && errlen) snprintf(why, errlen, "%s: %s", path, strerror(-err));
    return err;
}
