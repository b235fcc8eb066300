/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the eyes. A picture is looked at in sizes at which the eyes could be 24 pixels apart. In each,
 *
 * - places are sought that are dark and round, as an iris is: gradients around point away from them;
 * - of each two that could be a pair, the face that they would belong to is cut out, aligned. Its
 *   symmetric part is compared with the mean of drawn faces; what is not symmetric counts against it.
 *
 * The best pair is then looked at closely. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include <gpuwire/error.h>

#include "apps/faceverify/picture/align.h"
#include "apps/faceverify/picture/pyramid.h"

#define APART      24.f /* pixels between the eyes, in the size that is looked at */
#define LEAST_PART .06f /* of the picture's smaller side that lie between the eyes, at least and at most */
#define MOST_PART  .60f
#define ZOOM       1.18f /* from one size to the next */
#define SURE       .45f  /* a score below is no face */
enum {
    MASK_W = 32, /* the face: from -1 to 1 beside the middle of the eyes, */
    MASK_H = 35, /* from -0.7 above to 1.5 below; 16 pixels are the eyes' distance */
    MASK = MASK_W * MASK_H,
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

/* ---- the mean face ---- */

static float mean_face[MASK];
static bool in_face[MASK];
static pthread_once_t mean_face_once = PTHREAD_ONCE_INIT;

/* Symmetric, of mean 0 and length 1, inside an ellipse. Returns the length that it had. */
static float face_normalize(float *face, float *crooked)
{
    float sum = 0, square = 0, odd = 0;
    uint32_t n = 0;
    for (int y = 0; y < MASK_H; y++)
        for (int x = 0; x < MASK_W / 2; x++) {
            float *a = &face[y * MASK_W + x], *b = &face[y * MASK_W + MASK_W - 1 - x], even = (*a + *b) / 2;
            if (!in_face[y * MASK_W + x]) continue;
            odd += (*a - *b) * (*a - *b) / 2;
            *a = *b = even;
            sum += 2 * even;
            n += 2;
        }
    for (int i = 0; i < MASK; i++) {
        face[i] = in_face[i] ? face[i] - sum / (float)n : 0;
        square += face[i] * face[i];
    }
    float scale = square > 0 ? 1 / sqrtf(square) : 0;
    for (int i = 0; i < MASK; i++) face[i] *= scale;
    *crooked = square > 0 ? odd / (square + odd) : 1;
    return square / (float)n;
}

static void make_mean_face(void)
{
    static const struct face_eyes eyes = {{7.5f, 23.5f}, {11.2f, 11.2f}};
    uint8_t drawn[MASK];
    float crooked;
    for (int y = 0; y < MASK_H; y++)
        for (int x = 0; x < MASK_W; x++) {
            float u = ((float)x - 15.5f) / 16, v = (float)y / 16 - .7f - .42f;
            in_face[y * MASK_W + x] = u * u + v * v / 1.2f < .95f;
        }
    for (uint32_t p = 0; p < DRAWN; p++) {
        struct face_sitting sitting = {UINT64_C(0xe1e5), p, 0, .4f};
        face_draw_aligned(&sitting, MASK_W, MASK_H, &eyes, 0, drawn);
        for (int i = 0; i < MASK; i++) mean_face[i] += (float)drawn[i];
    }
    face_normalize(mean_face, &crooked);
}

/* How much the face around these eyes looks like one: up to 1. */
static float score_face(const struct face_pyramid *pyramid, const struct face_eyes *e)
{
    float face[MASK], crooked, alike = 0;
    float dx = (e->x[1] - e->x[0]) / 16, dy = (e->y[1] - e->y[0]) / 16, step = sqrtf(dx * dx + dy * dy);
    float mx = (e->x[0] + e->x[1]) / 2, my = (e->y[0] + e->y[1]) / 2;
    for (int y = 0; y < MASK_H; y++)
        for (int x = 0; x < MASK_W; x++) {
            float u = (float)x - 15.5f, v = (float)y - 11.2f;
            face[y * MASK_W + x] = in_face[y * MASK_W + x] ? face_pyramid_at(pyramid, mx + dx * u - dy * v,
                                                                             my + dy * u + dx * v, step)
                                                           : 0;
        }
    if (face_normalize(face, &crooked) < 4) return 0; /* nothing to be seen */
    for (int i = 0; i < MASK; i++) alike += face[i] * mean_face[i];
    return alike * (1 - .5f * crooked);
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
    g.score = score_face(pyramid, &g.eyes);
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
    if (!err && best.score > 0) guess_closely(&pyramid, &best);
    face_pyramid_free(&pyramid);
    if (!err && best.score < SURE)
        err = gw_error(-ENOENT, "%s: no eyes found; say where they are: --eyes X1,Y1,X2,Y2", name);
    if (!err) *eyes = best.eyes;
    return err;
}
