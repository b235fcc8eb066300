/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's keys and values are anyone's. A key that is taken is the one that its names make, and what a value
 * says may be printed. */
#include <stdlib.h>
#include <string.h>

#include "src/fleet/plan/plan.h"
#include "src/fleet/registry/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_key(struct fleet_etcd_bytes key)
{
    struct fleet_entry_name n;
    char again[FLEET_ENTRY_KEY];
    if (!fleet_entry_parse_key("", key, &n) || n.kind == FLEET_ENTRY_OTHER) return;
    if (fleet_entry_key("", n.kind, n.name, n.kind == FLEET_ENTRY_PLACE ? n.model : NULL, again)) abort();
    if (!fleet_etcd_equal(key, fleet_etcd_text(again))) abort();
}

static void fuzz_value(struct fleet_etcd_bytes value)
{
    struct fleet_registry_leader l;
    struct fleet_registry_worker w;
    struct fleet_registry_model m;
    struct fleet_registry_place p;
    struct fleet_registry_drain d;
    char text[FLEET_ENTRY_VALUE];
    if (!fleet_entry_get_leader(value, &l) && fleet_entry_put_leader(&l, text) <= 0) abort();
    if (!fleet_entry_get_worker(value, &w) && fleet_entry_put_worker(&w, text) <= 0) abort();
    if (!fleet_entry_get_model(value, &m) && fleet_entry_put_model(&m, text) <= 0) abort();
    if (!fleet_entry_get_place(value, &p) &&
        (p.where > FLEET_LEAVING || fleet_entry_put_place(&p, text) <= 0))
        abort();
    if (!fleet_entry_get_drain(value, &d) && fleet_entry_put_drain(&d, text) <= 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fleet_etcd_bytes b = {data, size};
    fuzz_key(b);
    fuzz_value(b);
    return 0;
}
