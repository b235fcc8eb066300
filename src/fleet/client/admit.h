/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller sheds: of the requests of a class, only a part is sent, evenly spread. */
#ifndef GW_FLEET_CLIENT_ADMIT_H
#define GW_FLEET_CLIENT_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { FLEET_ADMIT_CLASSES = 8, FLEET_ADMIT_ALL = 255 };

/* One model's classes, by deadline. All zero: everything is admitted. */
struct fleet_admit {
    uint32_t n;
    struct fleet_admit_class {
        int64_t deadline_ns; /* of its requests, at most */
        uint32_t admitted;   /* of 255 */
        uint32_t owed;       /* of a refusal, in parts of 255 */
    } class[FLEET_ADMIT_CLASSES];
};

/* The class changes, or is new. A class beyond the last is as if it had not been told. */
void fleet_admit_set(struct fleet_admit *a, int64_t deadline_ns, uint32_t admitted);
/* Whether a request of this deadline (INT64_MAX: none) may be sent. Counts it. */
bool fleet_admit_one(struct fleet_admit *a, int64_t deadline_ns);

#endif
