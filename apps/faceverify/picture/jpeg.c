/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JPEG files with libjpeg. Its errors come by longjmp: what such a jump must not lose lies in the
 * struct. */
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "apps/faceverify/picture/picture.h"

enum { MAX_SCANS = 64 }; /* of a progressive picture; each one costs as much as the whole picture */

struct jpeg_job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    const char *name;
    struct face_picture *picture;
    uint8_t *row; /* of a picture that libjpeg does not make grey */
    int err;      /* told already; 0: libjpeg's own message is it */
    char why[JMSG_LENGTH_MAX];
};

static void jpeg_job_error(j_common_ptr common)
{
    struct jpeg_job *job = common->client_data;
    common->err->format_message(common, job->why);
    longjmp(job->out, 1);
}

/* libjpeg only warns where data is damaged, and goes on with grey. What it says of unneeded bytes is
 * harmless. */
static void jpeg_job_message(j_common_ptr common, int level)
{
    int code = common->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR)
        jpeg_job_error(common);
}

static void jpeg_job_progress(j_common_ptr common)
{
    struct jpeg_job *job = common->client_data;
    if (job->jpeg.input_scan_number <= MAX_SCANS) return;
    snprintf(job->why, sizeof(job->why), "it has more than %d scans", MAX_SCANS);
    longjmp(job->out, 1);
}

static uint32_t jpeg_job_turn(const struct jpeg_job *job)
{
    static const uint8_t exif[6] = "Exif\0";
    for (const struct jpeg_marker_struct *m = job->jpeg.marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > sizeof(exif) &&
            !memcmp(m->data, exif, sizeof(exif)))
            return face_exif_turn(m->data + sizeof(exif), m->data_length - sizeof(exif));
    return 1;
}

/* A row of cyan, magenta, yellow and black. Adobe's programs write them inverted. */
static void grey_of_cmyk(const struct jpeg_job *job, uint8_t *to)
{
    uint32_t flip = job->jpeg.saw_Adobe_marker ? 0 : 255;
    for (uint32_t x = 0; x < job->picture->width; x++) {
        const uint8_t *p = job->row + (size_t)x * 4;
        uint32_t black = p[3] ^ flip;
        uint32_t luma = (p[0] ^ flip) * 299 + (p[1] ^ flip) * 587 + (p[2] ^ flip) * 114;
        to[x] = (uint8_t)(luma * black / (255 * 1000));
    }
}

static void jpeg_job_pixels(struct jpeg_job *job)
{
    struct jpeg_decompress_struct *jpeg = &job->jpeg;
    bool cmyk = jpeg->num_components == 4;
    jpeg->out_color_space = cmyk ? JCS_CMYK : JCS_GRAYSCALE;
    job->err = face_picture_new(job->picture, jpeg->image_width, jpeg->image_height, job->name);
    if (job->err) longjmp(job->out, 1);
    jpeg_start_decompress(jpeg);
    if (cmyk) job->row = malloc((size_t)job->picture->width * 4);
    if (cmyk && !job->row) ERREXIT1(jpeg, JERR_OUT_OF_MEMORY, 0);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = job->picture->grey + (size_t)jpeg->output_scanline * job->picture->width;
        JSAMPROW row = cmyk ? job->row : to;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (cmyk) grey_of_cmyk(job, to);
    }
}

static int jpeg_job_run(struct jpeg_job *job, const uint8_t *bytes, size_t size, uint32_t *turn)
{
    if (setjmp(job->out))
        return job->err ? job->err : gw_error(-EBADMSG, "%s: damaged JPEG picture: %s", job->name, job->why);
    jpeg_create_decompress(&job->jpeg);
    job->jpeg.progress = &job->progress;
    jpeg_mem_src(&job->jpeg, bytes, size);
    jpeg_save_markers(&job->jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&job->jpeg, TRUE);
    *turn = jpeg_job_turn(job);
    jpeg_job_pixels(job);
    return 0;
}

int face_jpeg_decode(const uint8_t *bytes, size_t size, const char *name, struct face_picture *picture,
                     uint32_t *turn)
{
    struct jpeg_job *job = calloc(1, sizeof(*job));
    if (!job) return gw_error(-ENOMEM, "%s: no memory", name);
    job->name = name;
    job->picture = picture;
    job->jpeg.err = jpeg_std_error(&job->errors);
    job->jpeg.client_data = job;
    job->errors.error_exit = jpeg_job_error;
    job->errors.emit_message = jpeg_job_message;
    job->progress.progress_monitor = jpeg_job_progress;
    int err = jpeg_job_run(job, bytes, size, turn);
    jpeg_destroy_decompress(&job->jpeg);
    free(job->row);
    free(job);
    if (err) face_picture_free(picture);
    return err;
}
