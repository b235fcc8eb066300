/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a crowd of drawn people, and the mean of a person's histograms. */
#include "apps/faceverify/faces/crowd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/error.h>

/* Rounds a cell's means down, and gives what is missing to the bins that lost most. */
static void mean_of_cell(const uint32_t *sum, uint32_t count, uint16_t *mean)
{
    uint32_t missing = FACE_CELL_PIXELS, rest[FACE_BINS];
    for (uint32_t i = 0; i < FACE_BINS; i++) {
        mean[i] = (uint16_t)(sum[i] / count);
        rest[i] = sum[i] % count;
        missing -= mean[i];
    }
    for (; missing; missing--) {
        uint32_t most = 0;
        for (uint32_t i = 1; i < FACE_BINS; i++)
            if (rest[i] > rest[most]) most = i;
        mean[most]++;
        rest[most] = 0;
    }
}

void face_sum_add(struct face_sum *sum, const struct face_histogram *h)
{
    for (uint32_t i = 0; i < FACE_COUNTS; i++) sum->count[i] += h->count[i];
    sum->histograms++;
}

void face_sum_mean(const struct face_sum *sum, struct face_histogram *mean)
{
    for (uint32_t cell = 0; cell < FACE_CELLS; cell++)
        mean_of_cell(sum->count + cell * FACE_BINS, sum->histograms, mean->count + cell * FACE_BINS);
}

int face_crowd_new(struct face_crowd *crowd, uint32_t persons, uint32_t views)
{
    memset(crowd, 0, sizeof(*crowd));
    if (views > FACE_MAX_VIEWS)
        return gw_error(-E2BIG, "%u pictures are more than %d", views, FACE_MAX_VIEWS);
    crowd->persons = persons;
    crowd->views = views;
    crowd->person = calloc(persons, sizeof(*crowd->person));
    crowd->view = calloc(views, sizeof(*crowd->view));
    if (crowd->person && crowd->view) return 0;
    face_crowd_free(crowd);
    return gw_error(-ENOMEM, "no memory for %u pictures", views);
}

void face_crowd_mean(struct face_crowd *crowd)
{
    for (uint32_t v = 0; v < crowd->views;) {
        uint32_t person = crowd->view[v].person;
        struct face_sum sum = {0};
        for (; v < crowd->views && crowd->view[v].person == person; v++)
            if (crowd->view[v].enrolled) face_sum_add(&sum, &crowd->view[v].histogram);
        if (sum.histograms) face_sum_mean(&sum, &crowd->person[person].histogram);
    }
}

int face_crowd_draw(struct face_crowd *crowd, const struct face_crowd_opts *opts)
{
    const struct face_eyes eyes = FACE_EYES_ALIGNED;
    memset(crowd, 0, sizeof(*crowd));
    if (opts->enrolled > opts->views)
        return gw_error(-EINVAL, "%u of %u pictures cannot be enrolled", opts->enrolled, opts->views);
    int err = face_crowd_new(crowd, opts->persons, opts->persons * opts->views);
    if (err) return err;
    for (uint32_t p = 0; p < opts->persons; p++) {
        snprintf(crowd->person[p].name, sizeof(crowd->person[p].name), "person-%04u", p + 1);
        for (uint32_t k = 0; k < opts->views; k++) {
            struct face_view *v = &crowd->view[p * opts->views + k];
            struct face_sitting sitting = {opts->seed, p, k, opts->spread};
            v->person = p;
            v->enrolled = !opts->enrolled || k < opts->enrolled;
            face_draw_aligned(&sitting, FACE_SIDE, FACE_SIDE, &eyes, opts->spread, v->pixels);
            face_histogram_of(v->pixels, &v->histogram);
        }
    }
    face_crowd_mean(crowd);
    return 0;
}

void face_crowd_free(struct face_crowd *crowd)
{
    free(crowd->person);
    free(crowd->view);
    memset(crowd, 0, sizeof(*crowd));
}
