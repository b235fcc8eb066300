/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `gpuwire app faceverify`. Each takes its own argv (argv[0] is its name) and returns the
 * exit code. faceverify.c has their table. */
#ifndef FACE_COMMANDS_H
#define FACE_COMMANDS_H

int face_cmd_demo(int argc, char **argv);
int face_cmd_serve(int argc, char **argv);
int face_cmd_where(int argc, char **argv);
int face_cmd_load(int argc, char **argv);
/* With libpng and libjpeg (FACE_PICTURES). */
int face_cmd_faces(int argc, char **argv);
int face_cmd_enrol(int argc, char **argv);
int face_cmd_verify(int argc, char **argv);
int face_cmd_roc(int argc, char **argv);

#endif
