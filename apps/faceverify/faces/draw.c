/* SPDX-License-Identifier: Apache-2.0 */
/* Draws faces. A face has coordinates of its own: the distance of the eyes is 1, the left one is at
 * (-0.5, 0) and the right one at (0.5, 0), and v grows downwards. Each pixel is looked up there, so that
 * pose is one mapping and every shape is a formula. Beside shapes, a person has a skin: a texture that
 * stays, which local binary patterns see under any light. */
#include "apps/faceverify/faces/draw.h"

#include <math.h>
#include <stddef.h>

#define PI 3.14159265f

/* ---- random numbers: a hash of what they are for ---- */

static uint64_t draw_hash(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct dice {
    uint64_t state;
};

static float draw_roll(struct dice *d) /* 0 … 1 */
{
    d->state = draw_hash(d->state);
    return (float)(d->state >> 40) / (float)(1 << 24);
}

static float draw_between(struct dice *d, float least, float most)
{
    return least + (most - least) * draw_roll(d);
}

/* Around 0, mostly within 1. */
static float draw_swing(struct dice *d)
{
    return (draw_roll(d) + draw_roll(d) + draw_roll(d)) * 2.f / 1.5f - 2.f;
}

/* ---- shapes ---- */

static float clamp01(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* 1 below -soft, 0 above soft, smooth between. */
static float inside(float distance, float soft)
{
    float t = clamp01((soft - distance) / (2 * soft));
    return t * t * (3 - 2 * t);
}

static float bump(float x, float y, float sx, float sy)
{
    float e = x * x / (sx * sx) + y * y / (sy * sy);
    return e > 12 ? 0 : expf(-e);
}

static float blend(float from, float to, float how_much)
{
    return from + (to - from) * how_much;
}

/* A value for each point of a lattice, smooth between: -1 … 1. */
static float lattice(uint64_t seed, int32_t x, int32_t y)
{
    uint64_t h = draw_hash(seed ^ ((uint64_t)(uint32_t)x << 32 | (uint32_t)y));
    return (float)(h >> 40) / (float)(1 << 23) - 1;
}

static float draw_noise(uint64_t seed, float x, float y)
{
    float fx = floorf(x), fy = floorf(y), tx = x - fx, ty = y - fy;
    int32_t ix = (int32_t)fx, iy = (int32_t)fy;
    tx = tx * tx * (3 - 2 * tx);
    ty = ty * ty * (3 - 2 * ty);
    float top = blend(lattice(seed, ix, iy), lattice(seed, ix + 1, iy), tx);
    float low = blend(lattice(seed, ix, iy + 1), lattice(seed, ix + 1, iy + 1), tx);
    return blend(top, low, ty);
}

/* ---- a person, and one picture ---- */

struct person {
    uint64_t skin_seed, hair_seed;
    float tone, texture, face_w, face_h, chin, hair, hairline, hair_tone, strands;
    float brow_y, brow_w, brow_thick, brow_tilt, brow_arch, brow_tone;
    float eye_w, eye_h, iris, iris_tone, lid;
    float nose_w, nose_l, nose_tone, mouth_y, mouth_w, lip, lip_tone, beard, cheek;
    float mole[4][3];
};

struct shot {
    uint64_t noise_seed;
    float light_x, light_y, ambient, gain, lift, gamma, noise;
    float smile, open, brows, eyes, yaw;
    float turn, scale, shift_x, shift_y;
    float ground, ground_slope;
};

static void roll_person(const struct face_sitting *f, struct person *p)
{
    struct dice d = {draw_hash(f->seed ^ draw_hash(f->person + UINT64_C(0x5eed)))};
    p->skin_seed = draw_hash(d.state + 1);
    p->hair_seed = draw_hash(d.state + 2);
    p->tone = draw_between(&d, .45f, .68f);
    p->texture = draw_between(&d, .07f, .14f);
    p->face_w = draw_between(&d, .98f, 1.18f);
    p->face_h = draw_between(&d, 1.38f, 1.62f);
    p->chin = draw_between(&d, 0, .16f);
    p->hair = draw_between(&d, .05f, .3f);
    p->hairline = draw_between(&d, -.95f, -.55f);
    p->hair_tone = draw_between(&d, .06f, .42f);
    p->strands = draw_between(&d, 6, 18);
    p->brow_y = draw_between(&d, -.36f, -.24f);
    p->brow_w = draw_between(&d, .24f, .34f);
    p->brow_thick = draw_between(&d, .025f, .06f);
    p->brow_tilt = draw_between(&d, -.25f, .25f);
    p->brow_arch = draw_between(&d, .1f, 1.2f);
    p->brow_tone = draw_between(&d, .25f, .75f);
    p->eye_w = draw_between(&d, .19f, .25f);
    p->eye_h = draw_between(&d, .075f, .115f);
    p->iris = draw_between(&d, .085f, .105f);
    p->iris_tone = draw_between(&d, .05f, .28f);
    p->lid = draw_between(&d, .03f, .09f);
    p->nose_w = draw_between(&d, .15f, .27f);
    p->nose_l = draw_between(&d, .58f, .8f);
    p->nose_tone = draw_between(&d, .12f, .3f);
    p->mouth_y = p->nose_l + draw_between(&d, .28f, .42f);
    p->mouth_w = draw_between(&d, .32f, .5f);
    p->lip = draw_between(&d, .05f, .1f);
    p->lip_tone = draw_between(&d, .12f, .4f);
    p->beard = draw_roll(&d) < .3f ? draw_between(&d, .1f, .4f) : 0;
    p->cheek = draw_between(&d, 0, .14f);
    for (int i = 0; i < 4; i++) {
        p->mole[i][0] = draw_between(&d, -.8f, .8f);
        p->mole[i][1] = draw_between(&d, -.5f, 1.5f);
        p->mole[i][2] = draw_between(&d, -.5f, .4f);
    }
}

static void roll_shot(const struct face_sitting *f, struct shot *s)
{
    uint64_t mix = draw_hash(f->picture + UINT64_C(0x0b5e55ed));
    struct dice d = {draw_hash(f->seed ^ draw_hash(f->person ^ mix << 1))};
    float k = f->spread;
    s->noise_seed = draw_hash(d.state + 3);
    s->light_x = k * .4f * draw_swing(&d);
    s->light_y = -.3f + k * .3f * draw_swing(&d);
    s->ambient = .62f + k * .08f * draw_swing(&d);
    s->gain = .92f + k * .08f * draw_swing(&d);
    s->lift = k * .04f * draw_swing(&d);
    s->gamma = expf(k * .16f * draw_swing(&d));
    s->noise = .001f + k * .003f * draw_roll(&d);
    s->smile = k * .6f * draw_swing(&d);
    s->open = k * clamp01(.5f * draw_swing(&d)) * .5f;
    s->brows = k * .04f * draw_swing(&d);
    s->eyes = 1 + k * .2f * (draw_roll(&d) - .7f);
    s->yaw = k * .05f * draw_swing(&d);
    s->turn = k * .12f * draw_swing(&d);
    s->scale = 1 + k * .12f * draw_swing(&d);
    s->shift_x = k * .1f * draw_swing(&d);
    s->shift_y = k * .08f * draw_swing(&d);
    s->ground = draw_between(&d, .25f, .75f);
    s->ground_slope = .2f * draw_swing(&d);
}

/* ---- the parts of a face; `g` is the grey so far, 0 … 1 ---- */

struct point {
    float u, v, soft; /* soft: half the size of a pixel */
};

static float draw_hair(const struct person *p, const struct point *at, float g)
{
    float w = p->face_w + p->hair, h = p->face_h + p->hair;
    float v = at->v - .45f;
    float d = sqrtf(at->u * at->u / (w * w) + v * v / (h * h)) - 1;
    float strand = draw_noise(p->hair_seed, at->u * p->strands, at->v * 2.5f);
    float tone = p->hair_tone * (1 + .35f * strand);
    return blend(g, tone, inside(d, at->soft) * inside(at->v - 1.2f, .5f));
}

static float draw_skin(const struct person *p, const struct shot *s, const struct point *at, float g)
{
    float v = at->v - .5f;
    float w = p->face_w * (v > 0 ? 1 - p->chin * v * v / (p->face_h * p->face_h) : 1);
    float x = at->u / w, y = v / p->face_h, r2 = x * x + y * y;
    float hairline = p->hairline + .12f * draw_noise(p->hair_seed + 1, at->u * 4, 0);
    float in = inside(sqrtf(r2) - 1, at->soft) * inside(hairline - at->v, .02f + at->soft);
    if (in <= 0) return g;
    float z = sqrtf(r2 < 1 ? 1 - r2 : 0);
    float light = s->ambient + (1 - s->ambient) * clamp01(x * s->light_x * .9f + y * s->light_y + z * .8f);
    float skin = .3f * draw_noise(p->skin_seed, at->u * 3, at->v * 3) +
                 draw_noise(p->skin_seed + 1, at->u * 6, at->v * 6) +
                 .9f * draw_noise(p->skin_seed + 2, at->u * 12, at->v * 12);
    float tone = p->tone * (1 + p->texture * skin);
    tone *= 1 - p->cheek *
                    (bump(at->u - .62f, at->v - .6f, .25f, .3f) + bump(at->u + .62f, at->v - .6f, .25f, .3f));
    for (int i = 0; i < 4; i++)
        tone *= 1 - .4f * clamp01(p->mole[i][2]) *
                        bump(at->u - p->mole[i][0], at->v - p->mole[i][1], .04f, .04f) * 2;
    if (p->beard > 0) {
        float where = inside(.75f - at->v, .2f) * inside(.5f - r2, .2f);
        tone *= 1 - p->beard * where * (1 + .5f * draw_noise(p->hair_seed + 2, at->u * 20, at->v * 20));
    }
    return blend(g, tone * light * 1.15f, in);
}

static float draw_nose(const struct person *p, const struct shot *s, const struct point *at, float g)
{
    float u = at->u - s->yaw * .5f, side = bump(u, at->v - p->nose_l * .55f, p->nose_w, p->nose_l * .5f);
    float ridge = u / p->nose_w;
    g *= 1 + side * (.10f - p->nose_tone * ridge * (.4f + s->light_x) * .8f);
    float nostril = p->nose_w * .55f;
    g *= 1 - p->nose_tone * 2 *
                 (bump(u - nostril, at->v - p->nose_l, .06f, .035f) +
                  bump(u + nostril, at->v - p->nose_l, .06f, .035f));
    return g * (1 - p->nose_tone * .7f * bump(u, at->v - p->nose_l - .06f, p->nose_w, .04f));
}

static float draw_mouth(const struct person *p, const struct shot *s, const struct point *at, float g)
{
    float u = at->u - s->yaw * .3f, w = p->mouth_w * (1 + .15f * s->smile);
    float x = u / w, y = at->v - p->mouth_y + .12f * s->smile * (x * x - .4f);
    float taper = 1 - x * x;
    if (taper <= 0) return g;
    float lips = p->lip * taper * (1 + s->open), gap = .012f + s->open * .07f * taper;
    g = blend(g, g * (1 - p->lip_tone), inside(fabsf(y) - lips, .02f + at->soft));
    return blend(g, .12f, inside(fabsf(y) - gap * taper, .008f + at->soft) * .85f);
}

static float draw_brow(const struct person *p, const struct shot *s, const struct point *at, float side,
                       float g)
{
    float x = (at->u - .5f * side) * side,
          y = at->v - p->brow_y + s->brows + p->brow_tilt * x + p->brow_arch * x * x;
    float t = fabsf(x + .02f) / p->brow_w;
    if (t >= 1) return g;
    float thick = p->brow_thick * (1 - t * t * .7f);
    float hair = 1 + .25f * draw_noise(p->hair_seed + 3, at->u * 40, at->v * 12);
    return blend(g, p->hair_tone * .6f * hair, p->brow_tone * inside(fabsf(y) - thick, .015f + at->soft));
}

static float draw_eye(const struct person *p, const struct shot *s, const struct point *at, float side,
                      float g)
{
    float x = at->u - .5f * side, y = at->v, t = x / p->eye_w;
    float socket = bump(x, y + .05f, .3f, .2f);
    g *= 1 - .16f * socket;
    if (fabsf(t) >= 1.3f) return g;
    float shape = 1 - t * t, up = p->eye_h * s->eyes * shape, down = p->eye_h * .8f * shape;
    float lid = fabsf(y + up + p->lid) - .008f;
    g = blend(g, g * .72f, shape > 0 ? inside(lid, .01f + at->soft) : 0);
    if (shape <= 0) return g;
    float d = y < 0 ? -y - up : y - down, white = inside(d, .008f + at->soft);
    float r = sqrtf((x - s->yaw * .05f) * (x - s->yaw * .05f) + y * y);
    float ball = blend(.82f, p->iris_tone, inside(r - p->iris, .01f + at->soft));
    ball = blend(ball, .02f, inside(r - p->iris * .45f, .008f + at->soft));
    ball = blend(ball, .95f, bump(x - .03f, y + .03f, .018f, .018f));
    g = blend(g, ball, white);
    float lash = y < 0 ? fabsf(-y - up) : fabsf(y - down) + .02f;
    return blend(g, .08f, .75f * inside(lash - .012f, .008f + at->soft));
}

static float draw_point(const struct person *p, const struct shot *s, const struct point *at, float g)
{
    g = draw_hair(p, at, g);
    g = draw_skin(p, s, at, g);
    g = draw_nose(p, s, at, g);
    g = draw_mouth(p, s, at, g);
    for (int side = -1; side <= 1; side += 2) {
        g = draw_eye(p, s, at, (float)side, g);
        g = draw_brow(p, s, at, (float)side, g);
    }
    return g;
}

/* ---- the picture ---- */

static uint8_t expose(const struct shot *s, float g, uint32_t x, uint32_t y)
{
    struct dice d = {s->noise_seed ^ ((uint64_t)x << 32 | y)};
    g = powf(clamp01(g), s->gamma) * s->gain + s->lift + s->noise * 1.7f * draw_swing(&d);
    return (uint8_t)(clamp01(g) * 255 + .5f);
}

static void draw_at(const struct face_sitting *face, uint32_t width, uint32_t height,
                    const struct face_eyes *eyes, uint8_t *grey)
{
    struct person p;
    struct shot s;
    roll_person(face, &p);
    roll_shot(face, &s);
    float dx = eyes->x[1] - eyes->x[0], dy = eyes->y[1] - eyes->y[0], d2 = dx * dx + dy * dy;
    float mx = (eyes->x[0] + eyes->x[1]) / 2, my = (eyes->y[0] + eyes->y[1]) / 2;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            float px = (float)x - mx, py = (float)y - my;
            struct point at = {(px * dx + py * dy) / d2, (py * dx - px * dy) / d2, .7f / sqrtf(d2)};
            /* A turned head: what stands out, the nose's side of the face, moves along. */
            at.u += s.yaw * .25f * (1 - 4 * at.u * at.u) * (fabsf(at.u) < .5f ? 1.f : 0.f);
            float ground = s.ground + s.ground_slope * ((float)x / (float)width - .5f) +
                           .05f * draw_noise(s.noise_seed, (float)x * .02f, (float)y * .02f);
            grey[(size_t)y * width + x] = expose(&s, draw_point(&p, &s, &at, ground), x, y);
        }
}

void face_draw(const struct face_sitting *face, uint32_t width, uint32_t height, uint8_t *grey,
               struct face_eyes *eyes)
{
    struct shot s;
    roll_shot(face, &s);
    float small = (float)(width < height ? width : height);
    float half = small * .115f * s.scale, mx = (float)width * (.5f + s.shift_x * .6f);
    float my = (float)height * (.42f + s.shift_y * .6f);
    struct face_eyes at = {{mx - half * cosf(s.turn), mx + half * cosf(s.turn)},
                           {my - half * sinf(s.turn), my + half * sinf(s.turn)}};
    draw_at(face, width, height, &at, grey);
    if (eyes) *eyes = at;
}

void face_draw_aligned(const struct face_sitting *face, uint32_t width, uint32_t height,
                       const struct face_eyes *eyes, float slip, uint8_t *grey)
{
    struct dice d = {draw_hash(face->seed ^ draw_hash(face->person) ^ (face->picture + UINT64_C(77)))};
    struct face_eyes at = *eyes;
    for (int i = 0; i < 2; i++) {
        at.x[i] += slip * draw_swing(&d);
        at.y[i] += slip * draw_swing(&d);
    }
    draw_at(face, width, height, &at, grey);
}
