/* SPDX-License-Identifier: Apache-2.0 */
/* False acceptance and false rejection from two sorted lists of distances. */
#include "apps/faceverify/roc/curve.h"

#include <math.h>

/* How many of a sorted list are at most x. */
static uint32_t curve_count(const float *sorted, uint32_t n, float x)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sorted[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct face_rates face_curve_at(const struct face_curve *c, float threshold)
{
    return (struct face_rates){
        (double)curve_count(c->impostor, c->impostors, threshold) / c->impostors,
        1 - (double)curve_count(c->genuine, c->genuines, threshold) / c->genuines,
    };
}

float face_curve_equal(const struct face_curve *c)
{
    float best = 0;
    double nearest = 2;
    for (uint32_t i = 0; i < c->genuines + c->impostors; i++) {
        float t = i < c->genuines ? c->genuine[i] : c->impostor[i - c->genuines];
        struct face_rates r = face_curve_at(c, t);
        double apart = fabs(r.far - r.frr);
        if (apart > nearest || (apart == nearest && t >= best)) continue;
        nearest = apart;
        best = t;
    }
    return best;
}

float face_curve_for(const struct face_curve *c, double far)
{
    uint32_t taken = (uint32_t)(far * c->impostors + 1e-9);
    if (taken >= c->impostors) return 1;
    double t = (ceil((double)c->impostor[taken] * 1e4) - 1) / 1e4;
    return t > 0 ? (float)t : 0;
}
