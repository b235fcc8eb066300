/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a curve: as a table of numbers, as a picture (SVG), and as a picture of letters. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <gpuwire/error.h>

#include "apps/faceverify/roc/curve.h"

/* 0, or why the file is not whole. */
static int show_close(FILE *f, const char *path)
{
    int bad = ferror(f);
    if (fclose(f) || bad) return gw_error_errno(errno ? -errno : -EIO, "%s: cannot be written", path);
    return 0;
}

static float curve_most(const struct face_curve *c)
{
    float a = c->genuine[c->genuines - 1], b = c->impostor[c->impostors - 1];
    return a > b ? a : b;
}

int face_curve_csv(const struct face_curve *c, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f) return gw_error_errno(-errno, "%s", path);
    fprintf(f, "threshold,far,frr\n");
    for (int i = 0; i <= 1000 && (float)i / 1000 <= curve_most(c) + .001f; i++) {
        struct face_rates r = face_curve_at(c, (float)i / 1000);
        fprintf(f, "%.3f,%.6f,%.6f\n", i / 1000., r.far, r.frr);
    }
    return show_close(f, path);
}

/* ---- SVG ---- */

enum { LEFT = 70, TOP = 50, WIDE = 520, HIGH = 360 };
#define LEAST_RATE 1e-4 /* the left end of the axis of false acceptances */

static double svg_x(double far)
{
    double least = log10(LEAST_RATE);
    return LEFT + WIDE * (1 - (far > LEAST_RATE ? log10(far) : least) / least);
}

static double svg_y(double frr)
{
    return TOP + HIGH * frr;
}

static void svg_axes(FILE *f)
{
    static const char *const marks[] = {"0.01 %", "0.1 %", "1 %", "10 %", "100 %"};
    for (int i = 0; i < 5; i++) {
        double x = LEFT + WIDE * i / 4., y = TOP + HIGH * i / 4.;
        fprintf(f, "<path class='grid' d='M%.1f %dv%dM%d %.1fh%d'/>\n", x, TOP, HIGH, LEFT, y, WIDE);
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n", x, TOP + HIGH + 20, marks[i]);
        fprintf(f, "<text x='%d' y='%.1f' text-anchor='end'>%d %%</text>\n", LEFT - 8, y + 4, 100 - 25 * i);
    }
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>others who are taken for the person</text>\n",
            LEFT + WIDE / 2, TOP + HIGH + 42);
    fprintf(f,
            "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>people who are "
            "recognised</text>\n",
            TOP + HIGH / 2);
}

/* From the smallest threshold to the largest: steps to the right and upwards. */
static void svg_line(const struct face_curve *c, FILE *f)
{
    uint32_t g = 0, i = 0;
    fprintf(f, "<path class='roc' d='M%.1f %.1f", svg_x(0), svg_y(1));
    while (g < c->genuines || i < c->impostors) {
        if (i == c->impostors || (g < c->genuines && c->genuine[g] <= c->impostor[i]))
            g++;
        else
            i++;
        fprintf(f, "L%.1f %.1f", svg_x((double)i / c->impostors), svg_y(1 - (double)g / c->genuines));
    }
    fprintf(f, "'/>\n");
}

int face_curve_svg(const struct face_curve *c, float threshold, const char *path)
{
    struct face_rates r = face_curve_at(c, threshold);
    FILE *f = fopen(path, "we");
    if (!f) return gw_error_errno(-errno, "%s", path);
    fprintf(
        f,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
        "font-size='13'>\n"
        "<style>.grid{stroke:#8884;fill:none}.roc{stroke:#3b7d23;stroke-width:2;fill:none}text{fill:#333}"
        "svg{background:#fff}</style>\n"
        "<text x='%d' y='28' font-size='16'>faceverify: %u comparisons of a person, %u of others</text>\n",
        LEFT + WIDE + 40, TOP + HIGH + 60, LEFT, c->genuines, c->impostors);
    svg_axes(f);
    svg_line(c, f);
    fprintf(f, "<circle cx='%.1f' cy='%.1f' r='5' fill='#b3590a'/>\n", svg_x(r.far), svg_y(r.frr));
    const int middle = LEFT + WIDE / 2;
    bool left = svg_x(r.far) > middle;
    fprintf(f, "<text x='%.1f' y='%.1f' text-anchor='%s'>threshold %.4f</text>\n</svg>\n",
            svg_x(r.far) + (left ? -10 : 10), svg_y(r.frr) + 20, left ? "end" : "start", (double)threshold);
    return show_close(f, path);
}

/* ---- letters ---- */

enum { BANDS = 24, BAR = 30 };

static void print_bar(FILE *f, char letter, uint32_t count, uint32_t most)
{
    char bar[BAR + 1];
    int n = (int)ceil((double)count * BAR / most);
    memset(bar, letter, sizeof(bar));
    fprintf(f, " %-*.*s", BAR, n, n ? bar : "");
}

/* How many of a sorted list lie in each band. Returns the largest of these numbers. */
static uint32_t count_bands(const float *sorted, uint32_t n, float width, uint32_t *band)
{
    uint32_t most = 1;
    memset(band, 0, BANDS * sizeof(*band));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)(sorted[i] / width);
        k = k < BANDS ? k : BANDS - 1;
        if (++band[k] > most) most = band[k];
    }
    return most;
}

void face_curve_print(const struct face_curve *c, float threshold, FILE *f)
{
    uint32_t genuine[BANDS], impostor[BANDS];
    float width = curve_most(c) > 0 ? curve_most(c) / BANDS * 1.0001f : 1;
    uint32_t most_genuine = count_bands(c->genuine, c->genuines, width, genuine);
    uint32_t most_impostor = count_bands(c->impostor, c->impostors, width, impostor);
    fprintf(f, "  distance  %-*s %s\n", BAR, "to the same person", "to others");
    for (int i = 0; i < BANDS; i++) {
        fprintf(f, "  %7.3f ", (double)((float)i * width));
        print_bar(f, '#', genuine[i], most_genuine);
        print_bar(f, 'o', impostor[i], most_impostor);
        int here = (int)(threshold / width) == i;
        fprintf(f, "%s\n", here ? " <- threshold" : "");
    }
}
