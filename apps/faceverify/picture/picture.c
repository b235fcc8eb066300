/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a picture's file, asks the decoder that its first bytes name, and turns the picture upright. */
#include "apps/faceverify/picture/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

int face_picture_new(struct face_picture *p, uint64_t width, uint64_t height, const char *name)
{
    memset(p, 0, sizeof(*p));
    if (!width || !height) return gw_error(-EBADMSG, "%s: has no pixels", name);
    if (width > FACE_MAX_WIDTH || height > FACE_MAX_WIDTH || width * height > FACE_MAX_PIXELS)
        return gw_error(-E2BIG, "%s: %llu by %llu pixels are too many; make it smaller", name,
                        (unsigned long long)width, (unsigned long long)height);
    p->grey = malloc(width * height);
    if (!p->grey) return gw_error(-ENOMEM, "%s: no memory for its pixels", name);
    p->width = (uint32_t)width;
    p->height = (uint32_t)height;
    return 0;
}

void face_picture_free(struct face_picture *p)
{
    free(p->grey);
    memset(p, 0, sizeof(*p));
}

/* EXIF's orientations: 2 is mirrored, 3 upside down, 5 … 8 lie on their side. */
static int picture_upright(struct face_picture *p, uint32_t turn, const char *name)
{
    struct face_picture to;
    if (turn <= 1 || turn > 8) return 0;
    int sideways = turn >= 5;
    int err = face_picture_new(&to, sideways ? p->height : p->width, sideways ? p->width : p->height, name);
    if (err) return err;
    for (uint32_t y = 0; y < to.height; y++)
        for (uint32_t x = 0; x < to.width; x++) {
            uint32_t u = sideways ? y : x, v = sideways ? x : y;
            if (turn == 2 || turn == 3 || turn == 7 || turn == 8) u = p->width - 1 - u;
            if (turn == 3 || turn == 4 || turn == 6 || turn == 7) v = p->height - 1 - v;
            to.grey[(size_t)y * to.width + x] = p->grey[(size_t)v * p->width + u];
        }
    face_picture_free(p);
    *p = to;
    return 0;
}

int face_picture_decode(const void *bytes, size_t size, const char *name, struct face_picture *picture)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G'}, jpeg[] = {0xff, 0xd8, 0xff};
    uint32_t turn = 1;
    int err;
    memset(picture, 0, sizeof(*picture));
    if (size >= sizeof(png) && !memcmp(bytes, png, sizeof(png)))
        err = face_png_decode(bytes, size, name, picture, &turn);
    else if (size >= sizeof(jpeg) && !memcmp(bytes, jpeg, sizeof(jpeg)))
        err = face_jpeg_decode(bytes, size, name, picture, &turn);
    else
        return gw_error(-EBADMSG, "%s: neither a PNG nor a JPEG picture", name);
    if (!err) err = picture_upright(picture, turn, name);
    if (err) face_picture_free(picture);
    return err;
}

/* Reads what the descriptor has, a regular file's bytes. */
static int picture_slurp(int fd, const char *path, uint8_t **bytes, size_t *size)
{
    struct stat st;
    if (fstat(fd, &st)) return gw_error_errno(-errno, "%s", path);
    if (!S_ISREG(st.st_mode)) return gw_error(-EINVAL, "%s: not a file", path);
    if (st.st_size > FACE_MAX_FILE)
        return gw_error(-E2BIG, "%s: larger than %d MiB", path, FACE_MAX_FILE >> 20);
    *bytes = malloc((size_t)st.st_size + 1);
    if (!*bytes) return gw_error(-ENOMEM, "%s: no memory to read it", path);
    for (*size = 0; *size < (size_t)st.st_size;) {
        ssize_t n = read(fd, *bytes + *size, (size_t)st.st_size - *size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gw_error_errno(-errno, "%s", path);
        if (!n) break; /* it has become shorter: the decoder will say so */
        *size += (size_t)n;
    }
    return 0;
}

int face_picture_read(const char *path, struct face_picture *picture)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    memset(picture, 0, sizeof(*picture));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
    if (fd < 0) return gw_error_errno(-errno, "%s", path);
    int err = picture_slurp(fd, path, &bytes, &size);
    close(fd);
    if (!err) err = face_picture_decode(bytes, size, path, picture);
    free(bytes);
    return err;
}
