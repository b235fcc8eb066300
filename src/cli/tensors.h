/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files: what a request is made of, and where its answer goes. */
#ifndef GW_CLI_TENSORS_H
#define GW_CLI_TENSORS_H

#include <gpuwire/client.h>

#include "src/model/import/npy.h"

/* NAME=FILE, several times. A name of NULL is the model's only tensor. */
struct gw_files {
    uint32_t count;
    struct {
        char name[GW_CLIENT_NAME];
        const char *path;
        int unnamed;
    } file[GW_CLIENT_MAX_IO];
};

/* Reads an option's value; *text must outlive it. 0, or GW_EXIT_USAGE after saying what is wrong. */
int gw_files_add(const char *command, const char *option, struct gw_files *f, const char *text);

struct gw_arrays {
    const struct gw_files *files;
    uint32_t count;
    struct gw_npy npy[GW_CLIENT_MAX_IO];
    struct gw_client_shape shape[GW_CLIENT_MAX_IO]; /* theirs, for gw_client_opts */
    uint32_t input[GW_CLIENT_MAX_IO];               /* which of the model's each is, once they fit */
};

/* Below: 0, or a negative errno with gw_last_error(), which names the file. */

int gw_arrays_read(struct gw_arrays *a, const struct gw_files *files);
void gw_arrays_free(struct gw_arrays *a);
/* Are they the model's inputs, all of them? *rows: how many samples they have. */
int gw_arrays_fit(struct gw_arrays *a, const struct gw_client *c, uint32_t *rows);
/* Copies them into a slot. */
void gw_arrays_copy(const struct gw_arrays *a, struct gw_client *c, uint32_t slot, uint32_t rows);

/* Are these outputs of the model? */
int gw_files_fit(const struct gw_files *f, const struct gw_client *c);
int gw_reply_save(const struct gw_client *c, const struct gw_client_reply *r, const struct gw_files *f);
/* Prints the answer to standard output as the Open Inference Protocol's JSON. */
int gw_reply_print(const struct gw_client *c, const struct gw_client_reply *r);

#endif
