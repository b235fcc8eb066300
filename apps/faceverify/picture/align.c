/* SPDX-License-Identifier: Apache-2.0 */
/* Aligns a picture by its eyes, and reads their places from text. */
#include "apps/faceverify/picture/align.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "apps/faceverify/faces/crowd.h"
#include "apps/faceverify/picture/pyramid.h"

#define LEAST_DISTANCE 8.f

static bool eyes_inside(const struct face_picture *p, const struct face_eyes *e)
{
    for (int i = 0; i < 2; i++)
        if (!(e->x[i] >= 0 && e->y[i] >= 0 && e->x[i] < (float)p->width && e->y[i] < (float)p->height))
            return false;
    return true;
}

int face_align(const struct face_picture *picture, const struct face_eyes *eyes, uint8_t pixels[FACE_PIXELS])
{
    static const struct face_eyes to = FACE_EYES_ALIGNED;
    struct face_pyramid pyramid;
    float dx = eyes->x[1] - eyes->x[0], dy = eyes->y[1] - eyes->y[0], apart = sqrtf(dx * dx + dy * dy);
    if (!eyes_inside(picture, eyes))
        return gw_error(-ERANGE, "the eyes are outside the picture of %u by %u pixels", picture->width,
                        picture->height);
    if (!(apart >= LEAST_DISTANCE))
        return gw_error(-ERANGE, "the eyes are %.0f pixels apart; at least %.0f are needed", (double)apart,
                        (double)LEAST_DISTANCE);
    int err = face_pyramid_new(picture, &pyramid);
    if (err) return err;
    float wide = to.x[1] - to.x[0], a = dx / wide, b = dy / wide;
    for (int y = 0; y < FACE_SIDE; y++)
        for (int x = 0; x < FACE_SIDE; x++) {
            float u = (float)x - to.x[0], v = (float)y - to.y[0];
            float g = face_pyramid_at(&pyramid, eyes->x[0] + a * u - b * v, eyes->y[0] + b * u + a * v,
                                      apart / wide);
            pixels[y * FACE_SIDE + x] = (uint8_t)(g + .5f);
        }
    face_pyramid_free(&pyramid);
    return 0;
}

int face_eyes_parse(const char *text, struct face_eyes *eyes)
{
    float n[4];
    const char *at = text;
    for (int i = 0; i < 4; i++) {
        char *end;
        n[i] = strtof(at, &end);
        if (end == at || !isfinite(n[i]))
            return gw_error(-EINVAL, "%.60s: must be four numbers, X1,Y1,X2,Y2", text);
        at = end + strspn(end, ", \t\r\n");
    }
    if (*at) return gw_error(-EINVAL, "%.60s: must be four numbers, X1,Y1,X2,Y2", text);
    int left = n[0] <= n[2] ? 0 : 2;
    *eyes = (struct face_eyes){{n[left], n[2 - left]}, {n[left + 1], n[3 - left]}};
    return 0;
}

int face_eyes_beside(const char *picture_path, struct face_eyes *eyes)
{
    char path[4096], text[256];
    const char *dot = strrchr(picture_path, '.'), *slash = strrchr(picture_path, '/');
    int len = dot && (!slash || dot > slash) ? (int)(dot - picture_path) : (int)strlen(picture_path);
    if (snprintf(path, sizeof(path), "%.*s.eyes", len, picture_path) >= (int)sizeof(path)) return -ENOENT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? -ENOENT : gw_error_errno(-errno, "%s", path);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    int err = n < 0 ? -errno : 0;
    close(fd);
    if (err) return gw_error_errno(err, "%s", path);
    text[n] = 0;
    if (face_eyes_parse(text, eyes))
        return gw_error(-EINVAL, "%s: must have four numbers, X1 Y1 X2 Y2", path);
    return 0;
}
