/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h: a fleet on virtual time: clients, workers and a controller that runs one of the policies of
 * src/fleet/plan. A seed and the options decide everything. Each step asserts what must hold (check.c), in
 * builds with assertions.
 *
 * Units are plan.h's. One thread for each simulation.
 */
#ifndef GW_FLEET_SIM_H
#define GW_FLEET_SIM_H

#include <stdbool.h>
#include <stdint.h>

enum sim_policy {
    SIM_LEASES,    /* ours: clients write to workers; the device admits by deadline */
    SIM_CLOCKWORK, /* each batch is planned by the controller */
    SIM_DEFERRED,  /* the same, with deferred batches */
};

enum sim_load {
    SIM_POISSON,
    SIM_ONOFF, /* each model is on for a while at four times its rate, then off three times as long */
    SIM_AZURE, /* rates, bursts, timers and the day's wave like those of Azure's functions (load.c) */
};

enum sim_fault {                 /* bits */
                 SIM_DEATH = 1,  /* a worker dies, and comes back empty */
                 SIM_PAUSE = 2,  /* the controller does nothing for some seconds */
                 SIM_CUT = 4,    /* clients and the controller do not reach a worker for some seconds */
                 SIM_LIE = 8,    /* a worker takes three times as long as its telemetry says */
                 SIM_LOAD = 16,  /* a LOAD fails, one in ten */
                 SIM_CLOCK = 32, /* a worker's clock jumps beyond what it tells of its error */
                 SIM_DRAIN = 64, /* a worker is drained, and comes back */
};

struct sim_options {
    enum sim_policy policy;
    enum sim_load load;
    uint64_t seed;
    uint32_t workers, models;
    uint64_t requests;      /* then it ends */
    double rate;            /* requests a second, all models together */
    double skew;            /* of rates over models: 0 is even, 1 is Zipf's; not for SIM_AZURE */
    double day_s;           /* SIM_AZURE: the length of a day */
    int64_t deadline_ns;    /* of each request */
    double deadline_factor; /* if not 0: the deadline is this many times the model's time for one request */
    double tight;           /* part of the models whose deadline is tight_ns */
    int64_t tight_ns;
    double slack;      /* part of each model's requests that have four times the deadline */
    int64_t exec_ns;   /* one request */
    double marginal;   /* each further request of a batch takes this part of exec_ns */
    bool zoo;          /* models differ: 1/4 to 4 times in time, 1/2 to 2 in `marginal`, 2 to 40 pages */
    uint32_t replicas; /* places that each model has at least, where memory allows */
    uint32_t pages;    /* of a model */
    uint32_t gpu_pages, host_pages;
    int64_t page_ns;        /* to bring one page to a GPU */
    int64_t disk_page_ns;   /* to read one page from disk; 0: all models are in host memory */
    int64_t hop_ns;         /* one way over the network */
    int64_t jitter_ns;      /* mean of what comes on top */
    double noise;           /* of durations: standard deviation over mean */
    int64_t clock_error_ns; /* of workers, at most */
    int64_t round_ns;       /* of the planner */
    int64_t ahead_ns;       /* clockwork: a GPU has work for this time */
    double defer;           /* leases: the device waits for this part of the time that it could */
    uint32_t spills;        /* leases: fleet_tuning.spills */
    uint32_t faults;        /* enum sim_fault */
    double fault_s;         /* one fault in this time on average */
    int64_t warm_ns;        /* what starts earlier is not counted */
    bool prewarm;           /* the models with the highest rates are on GPUs at the start */
    bool strict;            /* whole-state checks at each step rather than each round; slow */
};

enum sim_end {
    SIM_GOOD,    /* answered in time */
    SIM_LATE,    /* answered late */
    SIM_SHED,    /* the client sent it nowhere: SHED */
    SIM_REFUSED, /* the device or the controller refused it */
    SIM_NOWHERE, /* its model was on no GPU in time */
    SIM_LOST,    /* with a worker that died or was cut off */
    SIM_ENDS,
};

enum { SIM_BUCKETS = 512 };

struct sim_result {
    uint64_t requests, counted, early; /* early: before warm_ns */
    uint64_t ends[SIM_ENDS];
    uint64_t tight, tight_good;     /* of the models with tight_ns */
    uint64_t retried;               /* sent to a second worker */
    uint64_t batches, batched;      /* and the requests in them */
    uint64_t loads, evicts, failed; /* LOADs begun; EVICTs; LOADs that failed */
    uint64_t actions, rounds,
        messages;     /* of the controller; messages: what it sent and received for single requests */
    double busy;      /* part of the workers' time that they executed */
    double seconds;   /* of virtual time that were counted */
    double error_p99; /* of predictions: by what part of it a batch's time differed */
    uint64_t latency[SIM_BUCKETS]; /* of answers */
    uint64_t error[SIM_BUCKETS];   /* of predictions, in billionths */
    uint64_t hash;                 /* of all that happened: two runs of a seed have the same */
};

void sim_defaults(struct sim_options *o);

/* Runs it. 0, -ENOMEM, or -ENOBUFS: more than two seconds of requests were open at once. */
int sim_run(const struct sim_options *o, struct sim_result *out);

/* The quantile of a histogram, in nanoseconds, within 6 %. */
int64_t sim_quantile(const uint64_t *buckets, double q);

#endif
