/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of `gpuwire fleet demo`, each with a log in the demo's folder. None outlives the demo. */
#ifndef GW_CLI_FLEET_DEMO_PROCESS_H
#define GW_CLI_FLEET_DEMO_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEMO_PATH = 256, DEMO_NAME = 16 };

struct gw_demo_process {
    pid_t pid; /* 0: it does not run */
    char name[DEMO_NAME];
};

/* A folder of this user's alone for the logs and etcd's data. 0, or a negative errno with gw_last_error(). */
int gw_demo_folder_make(char folder[DEMO_PATH]);
void gw_demo_folder_remove(const char *folder);
/* `count` ports of 127.0.0.1 that nothing listens at. */
int gw_demo_ports(uint16_t *port, int count);
/* Runs a program of the PATH, or with argv[0] "gpuwire" this one. Its output goes to FOLDER/NAME.log. */
int gw_demo_process_start(struct gw_demo_process *p, const char *folder, const char *name,
                          const char *const *argv);
/* It runs; if not, gw_last_error() has the last line of its log. */
bool gw_demo_process_lives(struct gw_demo_process *p, const char *folder);
void gw_demo_process_kill(struct gw_demo_process *p);
/* In order, and by force after a while. */
void gw_demo_process_end(struct gw_demo_process *p);
/* Something listens at this port of 127.0.0.1. */
bool gw_demo_port_answers(uint16_t port);

#endif
