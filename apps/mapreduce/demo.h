/* SPDX-License-Identifier: Apache-2.0 */
/* demo.h: what gpuwire app mapreduce shows without arguments. */
#ifndef GW_MAPREDUCE_DEMO_H
#define GW_MAPREDUCE_DEMO_H

#include "options.h"

/* Word count of generated text, beside coreutils'. Returns the exit code. */
int demo_run(struct options *o);

#endif
