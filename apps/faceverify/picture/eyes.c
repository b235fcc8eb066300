/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the eyes. A picture is looked at in sizes at which the eyes could be 24 pixels apart. In each,
 *
 * - it looks for dark, round places, as an iris is. The gradients around such a place point away from it;
 * - it takes each two that could be a pair, and cuts out the face that they would belong to, aligned. It
 *   compares this face with the mean of drawn faces and with its own mirror image. Both comparisons leave
 *   out the light: only what differs from the pixels around counts.
 *
 * The best pair is then looked at closely. The weights of what counts were fitted to drawn faces, a portrait
 * and pictures without faces. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "apps/faceverify/picture/align.h"
#include "apps/faceverify/picture/pyramid.h"

#define APART      24.f /* pixels between the eyes, in the size that is looked at */
#define LEAST_PART .06f /* of the picture's smaller side that lie between the eyes, at least and at most */
#define MOST_PART  .60f
#define ZOOM       1.18f /* from one size to the next */
/* What a pair's score is made of; below SURE it is no face. */
#define SCORE_ALIKE  7.5f
#define SCORE_MIRROR 3.5f
#define SCORE_BRIDGE .7f
#define SCORE_ROUND  3.6f
#define SURE         9.5f
enum {
    MASK_W = 32, /* the face: from -1 to 1 beside the middle of the eyes, */
    MASK_H = 35, /* from -0.7 above to 1.5 below; 16 pixels are the eyes' distance */
    MASK = MASK_W * MASK_H,
    /* The part that counts: brows, eyes and nose. Mouths differ too much. */
    PART_LEFT = 2,
    PART_RIGHT = MASK_W - PART_LEFT,
    PART_TOP = 4,
    PART_END = 24,
    AROUND = 5,
    CANDIDATES = 40,
    DRAWN = 48,
};

struct plane {
    uint32_t width, height;
    float *grey, *round;
};

struct spot {
    float x, y, value;
};

struct guess {
    struct face_eyes eyes; /* in the picture */
    float score;
};

/* ---- faces ---- */

static float mean_face[MASK];
static pthread_once_t mean_face_once = PTHREAD_ONCE_INIT;

/* How much a pixel differs from those around, measured by how much these differ. */
static float face_sharp(const float *face, int x, int y)
{
    float sum = 0, square = 0, n = 0;
    for (int j = y < AROUND ? 0 : y - AROUND; j < MASK_H && j <= y + AROUND; j++)
        for (int i = x < AROUND ? 0 : x - AROUND; i < MASK_W && i <= x + AROUND; i++) {
            float v = face[j * MASK_W + i];
            sum += v;
            square += v * v;
            n++;
        }
    sum /= n;
    return (face[y * MASK_W + x] - sum) / sqrtf(square / n - sum * sum + 36);
}

/* The part that counts, sharp, of length 1; the rest is 0. */
static void face_sharpen(const float *face, float *sharp)
{
    float square = 1e-6f;
    memset(sharp, 0, MASK * sizeof(*sharp));
    for (int y = PART_TOP; y < PART_END; y++)
        for (int x = PART_LEFT; x < PART_RIGHT; x++) {
            float v = sharp[y * MASK_W + x] = face_sharp(face, x, y);
            square += v * v;
        }
    for (int i = 0; i < MASK; i++) sharp[i] /= sqrtf(square);
}

static void make_mean_face(void)
{
    static const struct face_eyes eyes = {{7.5f, 23.5f}, {11.2f, 11.2f}};
    float mean[MASK] = {0};
    uint8_t drawn[MASK];
    for (uint32_t p = 0; p < DRAWN; p++) {
        struct face_sitting sitting = {UINT64_C(0xe1e5), p, 0, .4f};
        face_draw_aligned(&sitting, MASK_W, MASK_H, &eyes, 0, drawn);
        for (int i = 0; i < MASK; i++) mean[i] += (float)drawn[i] / DRAWN;
    }
    face_sharpen(mean, mean_face);
}

/* The mean grey of a rectangle on both sides: |u| and v from … to. */
static float face_region(const float *face, const float from[2], const float to[2])
{
    float sum = 0, n = 0;
    for (int y = 0; y < MASK_H; y++)
        for (int x = 0; x < MASK_W; x++) {
            float u = fabsf((float)x - 15.5f) / 16, v = ((float)y - 11.2f) / 16;
            if (u < from[0] || u > to[0] || v < from[1] || v > to[1]) continue;
            sum += face[y * MASK_W + x];
            n++;
        }
    return n > 0 ? sum / n : 0;
}

/* How much brighter the bridge of the nose is than the eyes, in terms of the face's contrast: -2 … 2. */
static float face_bridge(const float *face)
{
    static const float eye[2][2] = {{.4f, -.07f}, {.6f, .07f}}, nose[2][2] = {{0, -.1f}, {.15f, .2f}};
    float sum = 0, square = 0;
    for (int i = 0; i < MASK; i++) {
        sum += face[i] / MASK;
        square += face[i] * face[i] / MASK;
    }
    float spread = sqrtf(square > sum * sum ? square - sum * sum : 0) + 4;
    float b = (face_region(face, nose[0], nose[1]) - face_region(face, eye[0], eye[1])) / spread;
    return b < -2 ? -2 : b > 2 ? 2 : b;
}

/* How much these two places look like the eyes of a face. */
static float score_face(const struct face_pyramid *pyramid, const struct face_eyes *e)
{
    float face[MASK], sharp[MASK], alike = 0, mirror = 0;
    float dx = (e->x[1] - e->x[0]) / 16, dy = (e->y[1] - e->y[0]) / 16, step = sqrtf(dx * dx + dy * dy);
    float mx = (e->x[0] + e->x[1]) / 2, my = (e->y[0] + e->y[1]) / 2;
    for (int y = 0; y < MASK_H; y++)
        for (int x = 0; x < MASK_W; x++) {
            float u = (float)x - 15.5f, v = (float)y - 11.2f;
            face[y * MASK_W + x] = face_pyramid_at(pyramid, mx + dx * u - dy * v, my + dy * u + dx * v, step);
        }
    face_sharpen(face, sharp);
    for (int y = PART_TOP; y < PART_END; y++)
        for (int x = PART_LEFT; x < PART_RIGHT; x++) {
            float v = sharp[y * MASK_W + x];
            alike += v * mean_face[y * MASK_W + x];
            mirror += v * sharp[y * MASK_W + MASK_W - 1 - x];
        }
    return SCORE_ALIKE * alike + SCORE_MIRROR * mirror + SCORE_BRIDGE * face_bridge(face);
}

/* ---- dark, round places ---- */

static void plane_free(struct plane *p)
{
    free(p->grey);
    free(p->round);
}

static int plane_new(const struct face_pyramid *pyramid, float step, struct plane *p)
{
    const struct face_picture *in = &pyramid->level[0];
    p->width = (uint32_t)((float)in->width / step);
    p->height = (uint32_t)((float)in->height / step);
    size_t n = (size_t)p->width * p->height;
    p->grey = malloc((n + 1) * sizeof(float));
    p->round = calloc(n + 1, sizeof(float));
    if (!p->grey || !p->round) {
        plane_free(p);
        return gw_error(-ENOMEM, "no memory to look for eyes");
    }
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++)
            p->grey[(size_t)y * p->width + x] =
                face_pyramid_at(pyramid, ((float)x + .5f) * step - .5f, ((float)y + .5f) * step - .5f, step);
    return 0;
}

/* Each gradient votes for the places `radius` pixels away in the dark direction. */
static void plane_vote(struct plane *p, float radius)
{
    for (uint32_t y = 1; y + 1 < p->height; y++)
        for (uint32_t x = 1; x + 1 < p->width; x++) {
            const float *at = p->grey + (size_t)y * p->width + x;
            float gx = at[1] - at[-1], gy = at[p->width] - at[-(ptrdiff_t)p->width],
                  g = sqrtf(gx * gx + gy * gy);
            if (g < 6) continue;
            float vx = (float)x - gx / g * radius, vy = (float)y - gy / g * radius;
            if (vx < 0 || vy < 0 || vx >= (float)p->width - 1 || vy >= (float)p->height - 1) continue;
            uint32_t l = (uint32_t)vx, t = (uint32_t)vy;
            float u = vx - (float)l, v = vy - (float)t, vote = g < 60 ? g : 60;
            float *to = p->round + (size_t)t * p->width + l;
            to[0] += vote * (1 - u) * (1 - v);
            to[1] += vote * u * (1 - v);
            to[p->width] += vote * (1 - u) * v;
            to[p->width + 1] += vote * u * v;
        }
}

static float plane_sum3(const struct plane *p, uint32_t x, uint32_t y)
{
    float sum = 0;
    for (uint32_t j = y - 1; j <= y + 1; j++)
        for (uint32_t i = x - 1; i <= x + 1; i++) sum += p->round[(size_t)j * p->width + i];
    return sum;
}

static void keep_spot(struct spot *spots, uint32_t *count, struct spot s)
{
    uint32_t i = *count;
    if (i == CANDIDATES && spots[i - 1].value >= s.value) return;
    if (i < CANDIDATES) (*count)++;
    for (i = *count - 1; i && spots[i - 1].value < s.value; i--) spots[i] = spots[i - 1];
    spots[i] = s;
}

/* The best places that have no better one within two pixels. */
static uint32_t plane_spots(const struct plane *p, struct spot *spots)
{
    uint32_t count = 0;
    for (uint32_t y = 3; y + 3 < p->height; y++)
        for (uint32_t x = 3; x + 3 < p->width; x++) {
            struct spot s = {(float)x, (float)y, plane_sum3(p, x, y)};
            if (s.value < 60 || (count == CANDIDATES && s.value <= spots[count - 1].value)) continue;
            bool best = true;
            for (int j = -2; best && j <= 2; j++)
                for (int i = -2; best && i <= 2; i++)
                    best = (!i && !j) || plane_sum3(p, x + (uint32_t)i, y + (uint32_t)j) <
                                             s.value + (j < 0 || (!j && i < 0) ? 0.f : 1e-3f);
            if (best) keep_spot(spots, &count, s);
        }
    return count;
}

/* ---- pairs ---- */

static void guess_pair(const struct face_pyramid *pyramid, const struct spot *a, const struct spot *b,
                       float step, struct guess *best)
{
    if (a->x > b->x) {
        const struct spot *swap = a;
        a = b;
        b = swap;
    }
    float dx = b->x - a->x, dy = b->y - a->y, apart = sqrtf(dx * dx + dy * dy);
    if (apart < APART * .85f || apart > APART * 1.18f || fabsf(dy) > dx * .6f) return;
    struct guess g = {.eyes = {{(a->x + .5f) * step - .5f, (b->x + .5f) * step - .5f},
                               {(a->y + .5f) * step - .5f, (b->y + .5f) * step - .5f}}};
    float round = SCORE_ROUND * logf((a->value < b->value ? a->value : b->value) / 1000);
    if (round + SCORE_ALIKE + SCORE_MIRROR + 2 * SCORE_BRIDGE <= best->score)
        return; /* it cannot be better */
    g.score = score_face(pyramid, &g.eyes) + round;
    if (g.score > best->score) *best = g;
}

static int guess_at(const struct face_pyramid *pyramid, float step, struct guess *best)
{
    struct plane p;
    struct spot spots[CANDIDATES];
    int err = plane_new(pyramid, step, &p);
    if (err) return err;
    if (p.width > 8 && p.height > 8) {
        plane_vote(&p, 2);
        plane_vote(&p, 3);
        uint32_t n = plane_spots(&p, spots);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = i + 1; k < n; k++) guess_pair(pyramid, &spots[i], &spots[k], step, best);
    }
    plane_free(&p);
    return 0;
}

/* Moves the eyes by small steps to where the face fits best. */
static void guess_closely(const struct face_pyramid *pyramid, struct guess *g)
{
    g->score = score_face(pyramid, &g->eyes);
    float apart = hypotf(g->eyes.x[1] - g->eyes.x[0], g->eyes.y[1] - g->eyes.y[0]);
    for (float step = apart / 16; step > apart / 140; step /= 2)
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < 4; i++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    struct guess next = *g;
                    (i < 2 ? next.eyes.x : next.eyes.y)[i % 2] += (float)sign * step;
                    next.score = score_face(pyramid, &next.eyes);
                    if (next.score > g->score) *g = next;
                }
}

int face_eyes_find(const struct face_picture *picture, const char *name, struct face_eyes *eyes)
{
    struct face_pyramid pyramid;
    struct guess best = {.score = 0};
    float side = (float)(picture->width < picture->height ? picture->width : picture->height);
    int err = face_pyramid_new(picture, &pyramid);
    if (err) return err;
    pthread_once(&mean_face_once, make_mean_face);
    for (float part = LEAST_PART; !err && part < MOST_PART; part *= ZOOM)
        if (part * side >= APART / 3) err = guess_at(&pyramid, part * side / APART, &best);
    if (!err && best.score < SURE)
        err = gw_error(-ENOENT, "%s: no eyes found; say where they are: --eyes X1,Y1,X2,Y2", name);
    if (!err) {
        guess_closely(&pyramid, &best);
        *eyes = best.eyes;
    }
    face_pyramid_free(&pyramid);
    return err;
}
