/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app mapreduce: jobs of maps and reduces, in kernels, over many ranks. README.md shows how. */
#include <string.h>

#include "demo.h"
#include "gen.h"
#include "run.h"

int main(int argc, char **argv)
{
    struct options o;
    int err;

    if (argc > 1 && !strcmp(argv[1], "gen")) return mr_gen(argc - 1, argv + 1);
    err = options_read(argc, argv, &o);
    if (err) return err < 0 ? 0 : err;
    return o.job ? run_job(&o) : demo_run(&o);
}
