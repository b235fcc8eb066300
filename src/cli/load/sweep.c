/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the next level of load, and decides when one has become steady. */
#include "src/cli/load/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A number, and what follows it. */
static int load_sweep_number(const char **text, double least, double most, int whole, double *out)
{
    char *end;
    size_t length = strspn(*text, "0123456789.");
    if (**text < '0' || **text > '9') return -EINVAL;
    *out = strtod(*text, &end);
    if (end != *text + length) return -EINVAL; /* strtod knows more numbers: 0x10, 1e3 */
    if (!(*out >= least && *out <= most) || (whole && *out != floor(*out))) return -EINVAL;
    *text = end;
    return 0;
}

static int parse_step(const char **text, double most, int whole, struct gw_sweep *s)
{
    const char *x = strchr(*text, 'x');
    s->multiply = x != NULL;
    if (load_sweep_number(text, s->multiply ? 1.01 : whole ? 1 : 1e-3, most, whole && !s->multiply, &s->step))
        return -EINVAL;
    *text += s->multiply;
    return 0;
}

int gw_sweep_parse(const char *text, double least, double most, int whole, struct gw_sweep *s)
{
    *s = (struct gw_sweep){.step = 1};
    if (load_sweep_number(&text, least, most, whole, &s->from)) return -EINVAL;
    s->to = s->from;
    if (*text == ':') {
        text++;
        if (load_sweep_number(&text, s->from, most, whole, &s->to)) return -EINVAL;
    }
    if (*text == ':') {
        text++;
        if (parse_step(&text, most, whole, s)) return -EINVAL;
    }
    double levels = s->multiply ? log(s->to / s->from) / log(s->step) : (s->to - s->from) / s->step;
    return *text || levels >= GW_SWEEP_LEVELS ? -EINVAL : 0;
}

double gw_sweep_next(const struct gw_sweep *s, double level)
{
    double next = level == 0 ? s->from : s->multiply ? level * s->step : level + s->step;
    /* Rounding must not lose the last one. */
    return next <= s->to * (1 + 1e-9) ? next : 0;
}

void gw_steady_add(struct gw_steady *s, double rate, double latency)
{
    s->rate[s->windows % GW_WINDOWS] = rate;
    s->latency[s->windows % GW_WINDOWS] = latency;
    s->windows++;
}

static bool agree(const double *v, double percent)
{
    double mean = 0;
    for (int i = 0; i < GW_WINDOWS; i++) mean += v[i] / GW_WINDOWS;
    for (int i = 0; i < GW_WINDOWS; i++)
        if (!(v[i] > 0) || fabs(v[i] - mean) > mean * percent / 100) return false;
    return true;
}

bool gw_steady_is(const struct gw_steady *s, double percent)
{
    return s->windows >= GW_WINDOWS && agree(s->rate, percent) && agree(s->latency, percent);
}
