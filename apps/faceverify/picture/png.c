/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes PNG files with libpng. Its errors come by longjmp: what such a jump must not lose
 * lies in the struct, not in variables of the function that is jumped to. */
#include <png.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "apps/faceverify/picture/picture.h"

enum { MAX_CHUNK = 8 << 20 };

struct png_job {
    const uint8_t *bytes;
    size_t size, at;
    const char *name;
    struct face_picture *picture;
    uint32_t *turn;
    png_structp png;
    png_infop info;
    uint8_t *pixels; /* grey, or grey and alpha */
    png_bytep *row;
    int err; /* told already; 0: libpng's own message is it */
    char why[160];
};

static void png_job_error(png_structp png, png_const_charp message)
{
    struct png_job *job = png_get_error_ptr(png);
    snprintf(job->why, sizeof(job->why), "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void png_job_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_job_read(png_structp png, png_bytep to, png_size_t size)
{
    struct png_job *job = png_get_io_ptr(png);
    if (size > job->size - job->at) png_error(png, "it ends too early");
    memcpy(to, job->bytes + job->at, size);
    job->at += size;
}

/* Asks libpng for 8 bits of grey, and of alpha where there is any. */
static void png_job_ask(struct png_job *job)
{
    png_set_expand(job->png);
    png_set_scale_16(job->png);
    if (png_get_color_type(job->png, job->info) & PNG_COLOR_MASK_COLOR)
        png_set_rgb_to_gray_fixed(job->png, PNG_ERROR_ACTION_NONE, PNG_RGB_TO_GRAY_DEFAULT,
                                  PNG_RGB_TO_GRAY_DEFAULT);
    png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
}

static void png_job_pixels(struct png_job *job)
{
    uint32_t width = png_get_image_width(job->png, job->info),
             height = png_get_image_height(job->png, job->info);
    job->err = face_picture_new(job->picture, width, height, job->name);
    if (job->err) png_error(job->png, "size");
    png_job_ask(job);
    size_t bytes = png_get_rowbytes(job->png, job->info);
    uint32_t channels = png_get_channels(job->png, job->info);
    if (channels > 2 || bytes != (size_t)width * channels)
        png_error(job->png, "it has a form that is not known");
    job->pixels = malloc(bytes * height);
    job->row = malloc(height * sizeof(*job->row));
    if (!job->pixels || !job->row) png_error(job->png, "no memory");
    for (uint32_t y = 0; y < height; y++) job->row[y] = job->pixels + bytes * y;
    png_read_image(job->png, job->row);
    for (size_t i = 0, n = (size_t)width * height; i < n; i++) {
        uint32_t g = job->pixels[i * channels], a = channels == 2 ? job->pixels[i * 2 + 1] : 255;
        job->picture->grey[i] = (uint8_t)((g * a + 255 * (255 - a) + 127) / 255);
    }
}

static void png_job_turn(struct png_job *job)
{
#ifdef PNG_eXIf_SUPPORTED
    png_bytep exif = NULL;
    png_uint_32 size = 0;
    if (png_get_eXIf_1(job->png, job->info, &size, &exif) && exif) *job->turn = face_exif_turn(exif, size);
#endif
}

static int png_job_run(struct png_job *job)
{
    if (setjmp(png_jmpbuf(job->png)))
        return job->err ? job->err : gw_error(-EBADMSG, "%s: damaged PNG picture: %s", job->name, job->why);
    png_set_user_limits(job->png, FACE_MAX_WIDTH, FACE_MAX_WIDTH);
    png_set_chunk_malloc_max(job->png, MAX_CHUNK);
    png_set_chunk_cache_max(job->png, 64);
    png_set_read_fn(job->png, job, png_job_read);
    png_read_info(job->png, job->info);
    png_job_turn(job);
    png_job_pixels(job);
    return 0;
}

int face_png_decode(const uint8_t *bytes, size_t size, const char *name, struct face_picture *picture,
                    uint32_t *turn)
{
    struct png_job job = {.bytes = bytes, .size = size, .name = name, .picture = picture, .turn = turn};
    int err = -ENOMEM;
    job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, png_job_error, png_job_warning);
    job.info = job.png ? png_create_info_struct(job.png) : NULL;
    err = job.info ? png_job_run(&job) : gw_error(-ENOMEM, "%s: no memory", name);
    png_destroy_read_struct(&job.png, &job.info, NULL);
    free(job.pixels);
    free(job.row);
    if (err) face_picture_free(picture);
    return err;
}

int face_picture_write(const char *path, const struct face_picture *picture)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = picture->width,
                       .height = picture->height,
                       .format = PNG_FORMAT_GRAY};
    FILE *f = fopen(path, "wbe");
    if (!f) return gw_error_errno(-errno, "%s", path);
    int ok = png_image_write_to_stdio(&image, f, 0, picture->grey, (png_int_32)picture->width, NULL);
    int bad = fclose(f) ? errno : ok ? 0 : EIO;
    if (bad) remove(path);
    return bad ? gw_error_errno(-bad, "%s: cannot be written", path) : 0;
}
