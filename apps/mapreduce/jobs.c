/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a job by its name, in the tree or in a plug-in. */
#include "jobs.h"

#include <dlfcn.h>
#include <string.h>

extern const struct mr_job mr_job_wordcount, mr_job_index, mr_job_sort, mr_job_kmeans, mr_job_matvec;

static const struct mr_job *const jobs[] = {&mr_job_wordcount, &mr_job_index, &mr_job_sort, &mr_job_kmeans,
                                            &mr_job_matvec};
enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };

void jobs_list(FILE *f)
{
    for (int i = 0; i < JOBS; i++)
        fprintf(f, "  %-10s %s%s%s\n", jobs[i]->job, jobs[i]->what, jobs[i]->args ? "; arguments: " : "",
                jobs[i]->args ? jobs[i]->args : "");
}

/* A job that another program made: its facts must make sense. */
static bool job_sound(const struct mr_job *j)
{
    return j->size == sizeof(*j) && j->job && j->what && j->map_kernel && j->reduce_kernel &&
           j->input >= MR_LINES && j->input <= MR_NPY && j->by <= MR_BY_BLOCK && j->combine <= MR_OWN &&
           j->key && j->key <= MR_MAX_KEY && j->value <= MR_MAX_VALUE;
}

static const struct mr_job *plugin_open(const char *path, char *why, size_t size)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(base, '.');
    const struct mr_job *job;
    char symbol[128];
    void *so;

    snprintf(symbol, sizeof(symbol), "mr_job_%.*s", dot ? (int)(dot - base) : (int)strlen(base), base);
    so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        snprintf(why, size, "%s", dlerror());
        return NULL;
    }
    job = (const struct mr_job *)dlsym(so, symbol);
    if (job && job_sound(job)) return job;
    snprintf(why, size,
             job ? "%s: %s is a job of another version, or its facts are wrong"
                 : "%s: it has no %s: the file must have its job's name",
             path, symbol);
    dlclose(so);
    return NULL;
}

const struct mr_job *jobs_find(const char *name, char *why, size_t size)
{
    size_t n = strlen(name);

    if (strchr(name, '/') || (n > 3 && !strcmp(name + n - 3, ".so"))) return plugin_open(name, why, size);
    for (int i = 0; i < JOBS; i++)
        if (!strcmp(jobs[i]->job, name)) return jobs[i];
    snprintf(why, size, "%s: there is no such job", name);
    return NULL;
}
