/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify: the table of its subcommands. */
#include <stdio.h>
#include <string.h>

#include <gpuwire/options.h>

#include "apps/faceverify/commands.h"

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} commands[] = {
#ifdef FACE_PICTURES
    {"demo", "all of it on this machine, in seconds", face_cmd_demo},
#endif
    {"serve", "the server: a kernel that answers clients", face_cmd_serve},
    {"where", "which memcached has a person, and by which key", face_cmd_where},
#ifdef FACE_PICTURES
    {"faces", "draws people who do not exist into a folder", face_cmd_faces},
    {"enrol", "pictures of people become values in memcached", face_cmd_enrol},
    {"roc", "how well distances tell people apart; chooses a threshold", face_cmd_roc},
    {"verify", "asks a server whether a picture shows a person", face_cmd_verify},
#endif
    {"load", "many requests to a server: are the verdicts right, and how fast is it?", face_cmd_load},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void face_print_usage(FILE *f)
{
    fprintf(
        f,
        "usage: gpuwire app faceverify [COMMAND [ARGUMENT...]]\n\n"
        "Is this the face of that person? A kernel answers, and asks memcached who the person is. Without a\n"
        "command it shows itself, as `demo` does.\n\n");
    for (int i = 0; i < COMMANDS; i++) fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].what);
    fprintf(f, "\n  -h, --help  this text; after COMMAND, its options\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        face_print_usage(stdout);
        return GW_EXIT_OK;
    }
#ifdef FACE_PICTURES
    if (argc < 2 || argv[1][0] == '-') return face_cmd_demo(argc, argv);
#else
    if (argc < 2)
        return gw_usage_error("app faceverify", "which command? The demonstration needs libpng and libjpeg");
#endif
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    return gw_usage_error("app faceverify", "%s: there is no such command", argv[1]);
}
