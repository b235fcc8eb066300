/* SPDX-License-Identifier: Apache-2.0 */
/* Reading PNG files with libpng.
 *
 * libpng reports errors by longjmp. All that a jump would lose lies in one struct outside the function that
 * is jumped back to, and is freed in one place. */
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/image/image.h"

#define FILE_MAX  (1ul << 28) /* bytes of a file at most */
#define CHUNK_MAX (1u << 20)  /* bytes libpng may spend on one chunk of text or profile: none is used here */

struct reader {
    const uint8_t *bytes;
    size_t len, at;
    struct gw_image image;
    png_bytep *rows;
    png_structp png;
    png_infop info;
    int rc;
    char why[160];
};

__attribute__((format(printf, 3, 4))) static void png_read_say(char *err, size_t errlen, const char *format,
                                                               ...)
{
    if (!err || !errlen) return;
    va_list args;
    va_start(args, format);
    vsnprintf(err, errlen, format, args);
    va_end(args);
}

static void png_read_on_error(png_structp png, png_const_charp message)
{
    struct reader *r = png_get_error_ptr(png);
    if (!r->why[0]) snprintf(r->why, sizeof(r->why), "%s", message);
    if (!r->rc) r->rc = -EBADMSG;
    png_longjmp(png, 1);
}

static void png_read_on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message; /* a picture that can be read is read */
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (n > r->len - r->at) {
        snprintf(r->why, sizeof(r->why), "it ends too early, after %zu bytes", r->len);
        png_error(png, "truncated");
    }
    memcpy(to, r->bytes + r->at, n);
    r->at += n;
}

/* Asks libpng for 8 bits a channel whatever the file holds, and makes the picture's memory. */
static void png_read_prepare(struct reader *r)
{
    png_structp png = r->png;
    png_read_info(png, r->info);
    png_uint_32 width = png_get_image_width(png, r->info), height = png_get_image_height(png, r->info);
    if ((uint64_t)width * height > GW_IMAGE_MAX_PIXELS) {
        snprintf(r->why, sizeof(r->why), "%u by %u pixels are too many: %u are the most", width, height,
                 GW_IMAGE_MAX_PIXELS);
        r->rc = -E2BIG;
        png_error(png, "too large");
    }
    png_set_expand(png); /* palette to RGB, fewer bits to 8, tRNS to alpha */
    png_set_scale_16(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, r->info);
    int err = gw_image_new(&r->image, width, height, png_get_channels(png, r->info));
    if (!err && png_get_rowbytes(png, r->info) != (size_t)width * r->image.channels) err = -EBADMSG;
    if (!err && !(r->rows = malloc(height * sizeof(*r->rows)))) err = -ENOMEM;
    if (err) {
        r->rc = err;
        png_error(png, err == -ENOMEM ? "not enough memory" : "its rows have a strange size");
    }
    for (png_uint_32 y = 0; y < height; y++)
        r->rows[y] = r->image.data + (size_t)y * width * r->image.channels;
}

static void png_read_decode(struct reader *r)
{
    if (setjmp(png_jmpbuf(r->png))) return;
    png_set_read_fn(r->png, r, on_read);
    png_set_user_limits(r->png, GW_IMAGE_MAX_SIDE, GW_IMAGE_MAX_SIDE);
    png_set_chunk_cache_max(r->png, 64);
    png_set_chunk_malloc_max(r->png, CHUNK_MAX);
    png_read_prepare(r);
    png_read_image(r->png, r->rows);
    png_read_end(r->png, NULL);
}

int gw_png_decode(const void *bytes, size_t len, const char *name, struct gw_image *image, char *err,
                  size_t errlen)
{
    struct reader r = {.bytes = bytes, .len = len};
    memset(image, 0, sizeof(*image));
    if (len < 8 || png_sig_cmp(bytes, 0, 8)) {
        png_read_say(err, errlen, "%s: not a PNG picture", name);
        return -EBADMSG;
    }
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, png_read_on_error, png_read_on_warning);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (r.info) {
        png_read_decode(&r);
    } else {
        r.rc = -ENOMEM;
        snprintf(r.why, sizeof(r.why), "not enough memory, or a libpng of another version");
    }
    png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.rows);
    if (r.rc) {
        gw_image_free(&r.image);
        png_read_say(err, errlen, "%s: %s%s", name, r.rc == -EBADMSG ? "damaged PNG picture: " : "", r.why);
        return r.rc;
    }
    *image = r.image;
    return 0;
}

/* Reads the rest of an open file. */
static int slurp(int fd, uint8_t **bytes, size_t *len)
{
    size_t room = 1 << 16, n = 0;
    struct stat st;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size < FILE_MAX)
        room = (size_t)st.st_size + 1; /* one more, so that the end is seen without growing */
    uint8_t *to = NULL;
    for (;;) {
        uint8_t *larger = to && n < room ? to : realloc(to, to ? room *= 2 : room);
        if (!larger) break;
        to = larger;
        ssize_t got = read(fd, to + n, room - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int err = -errno;
            free(to);
            return err;
        }
        if (got == 0) {
            *bytes = to;
            *len = n;
            return 0;
        }
        n += (size_t)got;
        if (n > FILE_MAX) {
            free(to);
            return -E2BIG;
        }
    }
    free(to);
    return -ENOMEM;
}

int gw_png_read(const char *path, struct gw_image *image, char *why, size_t errlen)
{
    memset(image, 0, sizeof(*image));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int err = -errno;
        png_read_say(why, errlen, "%s: %s", path, strerror(-err));
        return err;
    }
    uint8_t *bytes = NULL;
    size_t len = 0;
    int err = slurp(fd, &bytes, &len);
    close(fd);
    if (err) {
        png_read_say(why, errlen, "%s: %s", path, err == -E2BIG ? "larger than 256 MiB" : strerror(-err));
        return err;
    }
    err = gw_png_decode(bytes, len, path, image, why, errlen);
    free(bytes);
    return err;
}
