/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the command line. */
#include "options.h"

#include <string.h>

#include <gpuwire/options.h>

#include "jobs.h"
#include "launch.h"

static void print_help(FILE *f)
{
    fprintf(
        f,
        "usage: gpuwire app mapreduce JOB INPUT... [-o FOLDER] [OPTION...] [-- ARGUMENT...]\n"
        "       mpirun -n N gpuwire app mapreduce JOB INPUT... [...]\n"
        "       gpuwire app mapreduce gen KIND SIZE FILE [...]\n"
        "       gpuwire app mapreduce\n\n"
        "Maps and reduces files and folders with kernels: on CPU threads or GPUs, by one rank or many.\n"
        "Without arguments it shows word count on this machine. What stands after -- goes to the job.\n\n");
    jobs_list(f);
    fprintf(
        f, "  ./FILE.so  a job of your own: README.md shows one in twenty lines\n\n"
           "  -o, --out FOLDER      write part-00000, part-00001, ... there; without it all goes to standard "
           "output\n"
           "  -w, --workers N       start N ranks on this host, if no launcher has started them (1)\n"
           "      --exec cpu|gpu|auto  where kernels run (auto)\n"
           "      --lanes N         CPU: threads of a block (1)\n"
           "      --mappers N       mapper blocks of a rank (CPU: processors / ranks; GPU: chosen)\n"
           "      --parts N         partitions, each a file (as many as ranks)\n"
           "      --memory BYTES    for pairs, of each rank; k, M, G allowed (six times its share of the "
           "input)\n"
           "      --task BYTES      what the master hands out at once (chosen)\n"
           "      --rate BYTES      what a rank reads in a second at most (no limit)\n"
           "      --patience S      a rank that is silent for S seconds counts as dead (30)\n"
           "  -v, --verbose         each rank's process, and what it does\n"
           "  -q, --quiet           no progress, no table\n"
           "      --list            the jobs alone\n"
           "  -h, --help\n");
}

static const char options_call[] = "app mapreduce";

enum { O_EXEC = 256, O_LANES, O_MAPPERS, O_PARTS, O_MEMORY, O_TASK, O_RATE, O_PATIENCE, O_LIST };

static const struct option long_options[] = {
    {"out", required_argument, NULL, 'o'},
    {"workers", required_argument, NULL, 'w'},
    {"exec", required_argument, NULL, O_EXEC},
    {"lanes", required_argument, NULL, O_LANES},
    {"mappers", required_argument, NULL, O_MAPPERS},
    {"parts", required_argument, NULL, O_PARTS},
    {"memory", required_argument, NULL, O_MEMORY},
    {"task", required_argument, NULL, O_TASK},
    {"rate", required_argument, NULL, O_RATE},
    {"patience", required_argument, NULL, O_PATIENCE},
    {"verbose", no_argument, NULL, 'v'},
    {"quiet", no_argument, NULL, 'q'},
    {"list", no_argument, NULL, O_LIST},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int options_u32(const char *name, uint32_t max, uint32_t *out)
{
    return gw_option_u32(options_call, name, optarg, 1, max, out);
}

static int options_bytes(const char *name, uint64_t min, uint64_t max, uint64_t *out)
{
    return gw_option_bytes(options_call, name, optarg, min, max, out);
}

static int option_one(int c, struct options *o, char **argv)
{
    switch (c) {
    case 'o':
        o->out = optarg;
        return *optarg ? 0 : gw_usage_error(options_call, "--out: the folder's name is empty");
    case 'w': return options_u32("--workers", LAUNCH_MAX, &o->workers);
    case O_EXEC:
        o->exec = optarg;
        return gw_option_word(options_call, "--exec", optarg, "cpu gpu auto", NULL);
    case O_LANES: return options_u32("--lanes", 1024, &o->lanes);
    case O_MAPPERS: return options_u32("--mappers", 4096, &o->mappers);
    case O_PARTS: return options_u32("--parts", 4096, &o->parts);
    case O_MEMORY: return options_bytes("--memory", 1 << 20, (uint64_t)1 << 44, &o->memory);
    case O_TASK: return options_bytes("--task", 1, (uint64_t)1 << 40, &o->task);
    case O_RATE: return options_bytes("--rate", 1, (uint64_t)1 << 50, &o->rate);
    case O_PATIENCE: return gw_option_number(options_call, "--patience", optarg, 1, 86400, &o->patience);
    case 'v': o->verbose = true; return 0;
    case 'q': o->quiet = true; return 0;
    case O_LIST: jobs_list(stdout); return -1;
    case 'h': print_help(stdout); return -1;
    default: return gw_option_wrong(options_call, argv, c);
    }
}

int options_read(int argc, char **argv, struct options *o)
{
    static char why[512];
    int c, err, end = argc;

    memset(o, 0, sizeof(*o));
    o->exec = "auto";
    for (int i = argc - 1; i > 0; i--)
        if (!strcmp(argv[i], "--")) end = i;
    opterr = 0;
    while ((c = getopt_long(end, argv, ":o:w:vqh", long_options, NULL)) != -1)
        if ((err = option_one(c, o, argv))) return err;
    if (end < argc) {
        o->args = argv + end + 1;
        o->n_args = argc - end - 1;
    }
    if (optind == end)
        return o->n_args ? gw_usage_error(options_call, "there are arguments for a job, but no job") : 0;
    o->job = jobs_find(argv[optind], why, sizeof(why));
    if (!o->job) return gw_usage_error(options_call, "%s", why);
    o->input = argv + optind + 1;
    o->inputs = end - optind - 1;
    return o->inputs ? 0 : gw_usage_error(options_call, "job %s needs input: files or folders", o->job->job);
}
