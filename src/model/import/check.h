/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of everything that fails while a file is imported. */
#ifndef GW_MODEL_IMPORT_CHECK_H
#define GW_MODEL_IMPORT_CHECK_H

struct gwm_check {
    void (*each)(void *arg, const char *name, const char *type, const char *why);
    void *arg;
};

#endif
