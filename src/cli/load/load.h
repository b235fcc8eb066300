/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire load: what it was asked to do, and what it found. */
#ifndef GW_LOAD_H
#define GW_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <gpuwire/client.h>

#include "src/cli/door.h"
#include "src/cli/latency.h"
#include "src/cli/load/arrivals.h"
#include "src/cli/load/sweep.h"
#include "src/cli/tensors.h"

#define GW_LOAD_CLIENTS 1024
#define GW_LOAD_TALLIES 16   /* clients share these, so that many clients need no more memory */
#define GW_LOAD_BATCHES 1025 /* sizes of batches that are told apart; the last stands for all larger ones */

enum gw_load_mode {
    GW_LOAD_REQUESTS,    /* every slot of every client, until all requests are answered */
    GW_LOAD_CONCURRENCY, /* N in flight in all: the next one goes when one is answered */
    GW_LOAD_RATE,        /* N a second, whether or not earlier ones are answered */
};

struct gw_load_options {
    struct gw_door_options door;
    struct gw_client_opts client;
    enum gw_load_mode mode;
    struct gw_sweep sweep;
    uint64_t clients;  /* 0: as many as it takes */
    uint64_t requests; /* of each level; 0: windows say when it is over */
    uint64_t seed;
    double window_s, warmup_s, stability; /* percent */
    uint64_t max_windows;
    int constant, verify;
    struct gw_files input;
    const char *csv, *json, *plot;
};

/* The clients' counts since the last look. */
struct gw_tally {
    pthread_mutex_t lock;
    struct gw_latency *latency; /* of what was answered */
    uint64_t late, failed, wrong;
    uint64_t within, refused, lost;  /* of a fleet: answered by the deadline; refusals; a worker died */
    uint64_t batch[GW_LOAD_BATCHES]; /* requests that were run in a batch of that number of samples */
};

struct gw_load_client {
    struct gw_load *load;
    struct gw_client *c;
    pthread_t thread;
    uint32_t max_in_flight; /* this client's share of the level */
    struct gw_arrivals arrivals;
    struct gw_tally *tally;
    uint64_t intended[GW_CLIENT_MAX_SLOTS], sent[GW_CLIENT_MAX_SLOTS];
    int error;
    char why[300];
};

/* The results of one level. */
struct gw_level {
    double value; /* concurrency, or requests a second; 0 in mode GW_LOAD_REQUESTS */
    double seconds;
    uint64_t late, failed, wrong;
    uint64_t within, refused, lost; /* as in struct gw_tally */
    struct gw_latency *latency;
    uint64_t batch[GW_LOAD_BATCHES];
    int stable;       /* 1, or 0: the windows did not agree; -1: not checked */
    double behind_ms; /* mode GW_LOAD_RATE: how much later than intended the last request was sent */
    int has_server;   /* the next are the server's own sums, warm-up included */
    struct gw_client_stats server;
};

struct gw_load {
    struct gw_load_options o;
    struct gw_arrays arrays;
    uint32_t rows;
    struct gw_load_client *client;
    uint64_t clients;
    struct gw_tally tally[GW_LOAD_TALLIES];
    /* The level that runs. */
    uint64_t limit;               /* requests; 0: until stopped */
    atomic_ullong next, answered; /* ids given out, answers of any kind */
    atomic_ullong last;           /* when the last answer came */
    atomic_int stop, running;     /* send nothing more; threads that have not ended */
    struct gw_level *level;
    uint32_t levels;
};

/* args.c: -1, or the exit code. */
int gw_load_parse(int argc, char **argv, struct gw_load_options *o);

/* client.c: one client's thread, and its part of a level. */
void *gw_load_run_client(void *client);
/* Fills every slot's inputs once. */
void gw_load_fill(struct gw_load_client *me);

/* level.c: runs a level, and fills *level. 0, or a negative errno: a client's connection broke; *level still
 * has what there is. */
int gw_load_run_level(struct gw_load *l, double value, struct gw_level *level);

/* report.c: what was found, on standard output. */
void gw_report_begin(const struct gw_load *l);
void gw_report_level(const struct gw_load *l, const struct gw_level *v);
void gw_report_end(const struct gw_load *l);

/* export.c, plot.c: files. 0, or a negative errno with gw_last_error(). */
int gw_export_csv(const struct gw_load *l, const char *path);
int gw_export_json(const struct gw_load *l, const char *path);
int gw_plot_svg(const struct gw_load *l, const char *path);
/* Whether it loads a fleet: then deadlines are counted. */
bool gw_load_is_fleet(const struct gw_load *l);
/* Is gnuplot installed? */
bool gw_plot_possible(void);

#endif
