/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_SERVE_TABLE_H
#define TESTS_FUZZ_SERVE_TABLE_H

#include "src/server/lifecycle/table.h"

void table_advance(uint64_t ns);
/* Sessions of the connection (NULL: any) and the client (NULL: any). */
uint32_t table_count(struct gw_table *t, const void *connection, const char *who);

#endif
