/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that does nothing but note who drives it and when, to test the process's NIC and its thread. */
#ifndef TESTS_WIRE_FAKE_NIC_H
#define TESTS_WIRE_FAKE_NIC_H

#include "softnic/nic/nic.h"

struct fake_nic {
    unsigned ringable;
    unsigned contended; /* answer SN_CONTENDED */
    uint64_t next;      /* answer this, when nothing was rung */
    unsigned rung;      /* a doorbell: taken by the next look */
    uint64_t taken_at;  /* when it was */
    uint64_t activity;
    unsigned looks_thread; /* calls of sn_nic_progress by the thread "gw-nic" */
    unsigned looks_others;
    void (*in_look)(void); /* called once, by the thread, when a look has found out its answer */
    unsigned frames;       /* received, by whomever */
    unsigned alive;        /* NICs created and not destroyed */
    struct sn_nic_config config;
};
extern struct fake_nic fake; /* all fields are atomic */

uint64_t fake_now(void);

#endif
