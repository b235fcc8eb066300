/* SPDX-License-Identifier: Apache-2.0 */
/* gen.h: makes input files of any size, the same for the same seed. */
#ifndef MAPREDUCE_GEN_H
#define MAPREDUCE_GEN_H

/* gpuwire app mapreduce gen KIND SIZE FILE [OPTION...]. Returns what the program exits with. argv[0] is
 * "gen". */
int mr_gen(int argc, char **argv);

#endif
