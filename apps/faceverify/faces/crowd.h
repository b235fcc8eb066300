/* SPDX-License-Identifier: Apache-2.0 */
/* People, their aligned pictures, and what memcached holds of them: for load and roc. */
#ifndef FACE_FACES_CROWD_H
#define FACE_FACES_CROWD_H

#include <stdbool.h>

#include "apps/faceverify/face.h"
#include "apps/faceverify/faces/draw.h"

/* Where an aligned picture has its eyes, in pixels. */
#define FACE_EYES_ALIGNED                                                                                    \
    {                                                                                                        \
        {43, 92},                                                                                            \
        {                                                                                                    \
            48, 48                                                                                           \
        }                                                                                                    \
    }

enum { FACE_MAX_VIEWS = 20000 }; /* of a crowd: 520 MB */

struct face_view {
    uint32_t person;
    bool enrolled; /* it is part of the person's histogram */
    struct face_histogram histogram;
    uint8_t pixels[FACE_PIXELS];
};

struct face_person {
    char name[FACE_NAME_MAX + 1];
    struct face_histogram histogram; /* the mean of the enrolled views' */
};

/* All zero is an empty one. A person's views stand together. */
struct face_crowd {
    uint32_t persons, views;
    struct face_person *person;
    struct face_view *view;
};

/* Histograms that have been added up. All zero: none. */
struct face_sum {
    uint32_t histograms, count[FACE_COUNTS];
};
void face_sum_add(struct face_sum *sum, const struct face_histogram *h);
/* The mean of those added, at least one. It is a valid histogram: each cell's counts add up. */
void face_sum_mean(const struct face_sum *sum, struct face_histogram *mean);

struct face_crowd_opts {
    uint64_t seed;
    uint32_t persons, views; /* views of each */
    uint32_t enrolled;       /* that many of each are enrolled; 0: all */
    float spread;            /* as struct face_sitting's */
};

/* Draws them: person-0001, …. -E2BIG, -ENOMEM, -EINVAL (more enrolled than there are); *crowd is
 * empty then. */
int face_crowd_draw(struct face_crowd *crowd, const struct face_crowd_opts *opts);
/* Makes room for them, all zero. -E2BIG, -ENOMEM; *crowd is empty then. */
int face_crowd_new(struct face_crowd *crowd, uint32_t persons, uint32_t views);
/* Makes the mean of each person's enrolled views. */
void face_crowd_mean(struct face_crowd *crowd);
void face_crowd_free(struct face_crowd *crowd);

#endif
