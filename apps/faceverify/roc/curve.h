/* SPDX-License-Identifier: Apache-2.0 */
/* How often a threshold takes one person for another, and how often it refuses the right one. */
#ifndef FACE_ROC_CURVE_H
#define FACE_ROC_CURVE_H

#include <stdint.h>
#include <stdio.h>

/* Distances, ascending: of pictures to their own person, and to others. */
struct face_curve {
    uint32_t genuines, impostors;
    float *genuine, *impostor;
};

struct face_rates {
    double far, frr; /* impostors who are taken, and right people who are refused: 0 … 1 */
};

struct face_rates face_curve_at(const struct face_curve *c, float threshold);
/* The threshold at which both rates are nearest to each other, among the distances that occur. */
float face_curve_equal(const struct face_curve *c);
/* The largest threshold of four decimals that takes no more than this part of the impostors. */
float face_curve_for(const struct face_curve *c, double far);

/* What people look at. All but the last: 0, or a negative errno with gw_last_error(). */
int face_curve_csv(const struct face_curve *c, const char *path);
int face_curve_svg(const struct face_curve *c, float threshold, const char *path);
void face_curve_print(const struct face_curve *c, float threshold, FILE *f);

#endif
