/* Ten seconds of serving on a GPU: every answer equals the CPU's, and the worker's own threads sleep.
 *
 *     test_gpu_serving [--exec gpu|cpu] [--seconds N]
 *
 * Starts `gpuwire serve` as a process of its own, and keeps two super-resolution requests in flight. It
 * compares each answer with that of the same model's plan on the CPU. The two sum in different orders, so
 * answers may differ by 1e-4 of the largest value. Exit code 77: no GPU.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/model/import/npy.h"
#include "tests/rnd.h"

#define PICTURES  4
#define TOLERANCE 1e-4
#define SLOTS     2
#define OWN_LIMIT 0.01 /* of a core, on a GPU */

static char root[PATH_MAX]; /* the folder that holds bin/ */
static pid_t worker;

static void quit(const char *what)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, gw_last_error());
    if (worker > 0) kill(worker, SIGKILL);
    exit(1);
}

static const char *path_of(const char *below)
{
    static char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", root, below);
    return path;
}

/* bin/ lies beside this program in a build tree and beside its folder in a bundle. */
static void find_root(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(root, sizeof(root), "%s/..", dirname(self));
}

static const char *models(void)
{
    return access(path_of("models"), R_OK) ? path_of("../models") : path_of("models");
}

static unsigned start_worker(const char *exec)
{
    int out[2];
    char line[512], program[2 * PATH_MAX], repository[2 * PATH_MAX];
    snprintf(program, sizeof(program), "%s", path_of("bin/gpuwire"));
    snprintf(repository, sizeof(repository), "%s", models());
    if (pipe(out)) quit("pipe");
    worker = fork();
    if (!worker) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        execl(program, program, "serve", "--models", repository, "--model", "superresolution", "--exec", exec,
              "--port", "0", (char *)NULL);
        perror(program);
        _exit(1);
    }
    close(out[1]);
    int64_t ready = gw_wait_fds(out, 1, gw_deadline(60000000000u));
    FILE *says = fdopen(out[0], "r");
    const char *port = ready > 0 && fgets(line, sizeof(line), says) ? strstr(line, "port ") : NULL;
    if (!port) quit("the worker did not start");
    printf("gpu: %s", line);
    return (unsigned)strtoul(port + 5, NULL, 10);
}

/* The CPU's answer to each picture. */
static void expect(float *in[], float *out[], size_t *in_count, size_t *out_count)
{
    struct gw_model *model;
    struct gw_plan *plan;
    struct gw_plan_options options = {.place = GW_PLACE_CPU, .threads = 1};
    char why[GW_MODEL_ERR] = "", file[2 * PATH_MAX];
    struct rnd r = {.state = 7};
    snprintf(file, sizeof(file), "%s/superresolution/1/model.onnx", models());
    if (gw_model_open(file, &model, why, sizeof(why)) ||
        gw_plan_create(model, &options, &plan, why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        quit("the CPU's plan");
    }
    *in_count = gw_model_input(model, 0)->bytes / sizeof(float);
    *out_count = gw_model_output(model, 0)->bytes / sizeof(float);
    for (int k = 0; k < PICTURES; k++) {
        in[k] = aligned_alloc(64, (*in_count * sizeof(float) + 63) / 64 * 64);
        out[k] = aligned_alloc(64, (*out_count * sizeof(float) + 63) / 64 * 64);
        for (size_t i = 0; i < *in_count; i++) in[k][i] = (float)(rnd64(&r) >> 40) / (float)(1 << 24);
        const void *from = in[k];
        void *to = out[k];
        if (gw_plan_run(plan, &from, &to)) quit("running the CPU's plan");
    }
    gw_plan_free(plan);
    gw_model_close(model);
}

int main(int argc, char **argv)
{
    const char *exec = "gpu";
    double seconds = 10;
    float *in[PICTURES], *want[PICTURES];
    size_t in_count, out_count;
    char why[256], server[64];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--exec")) exec = argv[i + 1];
        if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
    }
    if (!strcmp(exec, "gpu") && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    find_root();
    expect(in, want, &in_count, &out_count);
    snprintf(server, sizeof(server), "127.0.0.1:%u", start_worker(exec));

    struct gw_client *c;
    struct gw_client_opts opts = {.server = server, .model = "superresolution", .slots = SLOTS};
    struct gw_client_cpu before, after;
    if (gw_client_open(&opts, &c)) quit("opening a session");
    if (gw_client_worker_cpu(c, &before)) quit("the worker's CPU time");
    uint64_t start = gw_deadline(0), end = gw_deadline((uint64_t)(seconds * 1e9)), sent = 0, answered = 0,
             wrong = 0;
    double worst = 0;
    for (uint32_t s = 0; s < SLOTS; s++, sent++) {
        memcpy(gw_client_slot_input(c, s, 0, 1), in[sent % PICTURES], in_count * sizeof(float));
        if (gw_client_submit(c, s, &(struct gw_client_request){.id = sent})) quit("submitting");
    }
    while (answered < sent) {
        struct gw_client_reply reply;
        struct gw_tensor_diff diff;
        if (gw_client_wait(c, gw_deadline(30000000000u), &reply) || reply.error)
            quit("waiting for an answer");
        gw_tensor_compare(reply.out[0].data, want[reply.id % PICTURES], out_count, TOLERANCE, &diff);
        answered++;
        wrong += diff.wrong != 0;
        if (diff.worst > worst) worst = diff.worst;
        if (gw_deadline(0) >= end) continue;
        memcpy(gw_client_slot_input(c, reply.slot, 0, 1), in[sent % PICTURES], in_count * sizeof(float));
        if (gw_client_submit(c, reply.slot, &(struct gw_client_request){.id = sent++})) quit("submitting");
    }
    double ns = (double)(gw_deadline(0) - start);
    if (gw_client_worker_cpu(c, &after)) quit("the worker's CPU time");
    gw_client_close(c);
    kill(worker, SIGTERM);
    int status = 0;
    waitpid(worker, &status, 0);

    double own = (double)(after.own_ns - before.own_ns) / ns,
           nic = (double)(after.nic_ns - before.nic_ns) / ns;
    printf("measured: %.1f s, %llu answers, %llu wrong, worst difference %.1e of the largest value\n",
           ns / 1e9, (unsigned long long)answered, (unsigned long long)wrong, worst);
    printf("measured: CPU time of the worker: its own threads %.2f %% of a core, its software NIC %.1f %%\n",
           100 * own, 100 * nic);
    int idle = strcmp(exec, "gpu") || own < OWN_LIMIT;
    if (!idle) printf("FAILED: the worker's own threads use more than %.0f %% of a core\n", 100 * OWN_LIMIT);
    if (status) printf("FAILED: the worker ended with status %d\n", status);
    return wrong || !idle || status;
}
