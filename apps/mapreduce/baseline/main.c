/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire-mapreduce-baseline JOB FILE...: the jobs on CPU threads. It maps the files and starts the
 * threads. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "baseline.h"

static const struct {
    const char *name;
    int (*run)(const struct work *w);
} jobs[] = {{"wordcount", words_count},
            {"index", words_index},
            {"sort", records_sort},
            {"kmeans", points_kmeans},
            {"matvec", matrix_vector}};

static const char help[] =
    "usage: gpuwire-mapreduce-baseline JOB FILE... [OPTION...]\n\n"
    "JOB is wordcount, index, sort, kmeans or matvec. The results are those of gpuwire app mapreduce.\n\n"
    "  --out FILE     where the result goes (default: standard output)\n"
    "  --threads N    default: one for each processor\n"
    "  --clusters N   kmeans: default 16\n"
    "  --rounds N     kmeans: default 10\n"
    "  --vector FILE  matvec: what the matrix is multiplied with\n"
    "  --time         prints how long the job took\n";

/* ---- threads ------------------------------------------------------------------------------------------- */

struct crowd {
    void (*f)(void *arg, uint64_t i);
    void *arg;
    uint64_t n;
    atomic_uint_fast64_t next;
};

static void *crowd_run(void *p)
{
    struct crowd *c = (struct crowd *)p;
    uint64_t i;

    /* Relaxed: the number alone is shared. Joining the threads orders what they wrote. */
    while ((i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->n) c->f(c->arg, i);
    return NULL;
}

void parallel(const struct work *w, uint64_t n, void (*f)(void *arg, uint64_t i), void *arg)
{
    struct crowd c = {f, arg, n, 0};
    pthread_t thread[w->threads];
    uint32_t k = 0;

    while (k + 1 < w->threads && k + 1 < n && !pthread_create(&thread[k], NULL, crowd_run, &c)) k++;
    crowd_run(&c);
    while (k) pthread_join(thread[--k], NULL);
}

/* ---- input --------------------------------------------------------------------------------------------- */

static int input_map(struct input *in, const struct mr_found *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);

    in->name = file->path;
    in->size = file->size;
    if (fd < 0) return gw_error_errno(-errno, "%s", file->path);
    if (in->size) {
        void *p = mmap(NULL, in->size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (p == MAP_FAILED) {
            close(fd);
            return gw_error_errno(-errno, "%s: cannot map it", file->path);
        }
        madvise(p, in->size, MADV_WILLNEED);
        in->bytes = (const uint8_t *)p;
    }
    close(fd);
    return 0;
}

static int inputs_map(struct work *w, const struct mr_files *files)
{
    int err = 0;

    w->input = (struct input *)calloc(files->n + 1, sizeof(*w->input));
    if (!w->input || files->n > UINT32_MAX) return gw_error(-ENOMEM, "no memory for %zu files", files->n);
    for (; w->inputs < files->n && !err; w->inputs++)
        err = input_map(&w->input[w->inputs], &files->file[w->inputs]);
    return err;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static double main_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int main_failed(int status, const char *what)
{
    fprintf(stderr, "gpuwire-mapreduce-baseline: %s\n", what);
    return status;
}

static bool main_number(const char *text, uint32_t *v)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    *v = (uint32_t)n;
    return *text >= '0' && *text <= '9' && !*end && n >= 1 && n <= 1 << 20;
}

static void main_free(struct work *w, struct mr_files *files, struct mr_files *more)
{
    free(w->input); /* what was mapped ends with the program */
    mr_files_free(files);
    mr_files_free(more);
    if (w->out != stdout) fclose(w->out);
}

/* paths: up to a NULL. */
static int main_run(struct work *w, int (*run)(const struct work *w), char **paths, char *vector, bool timed)
{
    double start = main_seconds();
    struct mr_files files = {0}, more = {0};
    int err, n = 0;

    while (paths[n]) n++;
    err = mr_files_find(paths, n, &files);
    if (!err) err = mr_files_find(&vector, vector != NULL, &more);
    if (!err) err = inputs_map(w, &files);
    if (!err && more.n) err = input_map(&w->vector, &more.file[0]);
    if (!err) err = run(w);
    if (!err && fflush(w->out)) err = gw_error_errno(-errno, "the result");
    if (!err && timed) fprintf(stderr, "seconds: %.4f\n", main_seconds() - start);
    main_free(w, &files, &more);
    return err ? main_failed(1, gw_last_error()) : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"out", 1, NULL, 'o'},      {"threads", 1, NULL, 't'},
                                            {"clusters", 1, NULL, 'c'}, {"rounds", 1, NULL, 'r'},
                                            {"vector", 1, NULL, 'v'},   {"time", 0, NULL, 'T'},
                                            {"help", 0, NULL, 'h'},     {NULL, 0, NULL, 0}};
    struct work w = {
        .threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), .clusters = 16, .rounds = 10, .out = stdout};
    bool timed = false, good = true;
    char *vector = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (option) {
        case 'o':
            if (!(w.out = fopen(optarg, "wb"))) return main_failed(1, strerror(errno));
            break;
        case 't': good &= main_number(optarg, &w.threads) && w.threads <= 1024; break;
        case 'c': good &= main_number(optarg, &w.clusters); break;
        case 'r': good &= main_number(optarg, &w.rounds); break;
        case 'v': vector = optarg; break;
        case 'T': timed = true; break;
        case 'h': return fputs(help, stdout) < 0;
        default: return 2;
        }
    }
    if (!good || argc - optind < 1) return main_failed(2, "needs JOB FILE...; see --help");
    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
        if (!strcmp(argv[optind], jobs[i].name))
            return main_run(&w, jobs[i].run, argv + optind + 1, vector, timed);
    return main_failed(2, "there is no such job");
}
