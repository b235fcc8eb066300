/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h: what `gpuwire nic` speaks with: a socket of the process's NIC, and a thread ("gw-see") that
 * sleeps until a client asks. It is not the NIC's thread, and takes the NIC's lock only for moments. So it
 * costs work nothing, and answers when everything else is stuck.
 *
 * The socket is a stream in the abstract UNIX name space, "gpuwire-nic-PID-NUMBER": seen by all processes of
 * the network name space, gone with the process. Only root and the process's own user are answered. A
 * request is one line:
 *
 *     show           all there is
 *     show QPN       the same, of queue pairs that one alone (a number as C writes them)
 *     fault LIST     the network is as LIST says from now on (config/faults.h)
 *     event NAME     an event of the device: device-fatal, with which it ends; port-err, port-active
 *
 * The answer is one JSON object, with a member "error" when the request failed; then the connection ends.
 */
#ifndef SOFTNIC_RUNTIME_CONTROL_H
#define SOFTNIC_RUNTIME_CONTROL_H

#include <stdio.h>

#include "softnic/config/config.h"
#include "softnic/nic/nic.h"
#include "softnic/port/port.h"
#include "softnic/runtime/thread.h"

#define SN_CONTROL_PREFIX "gpuwire-nic-"
enum { SN_CONTROL_REQUEST = SN_FAULTS_TEXT + 16 };

/* Tells programs of an event of the device, or of its port. Takes no lock of the NIC's. */
typedef void sn_device_event(struct sn_nic *nic, enum ibv_event_type type);

/* What it is about; all of it must outlive the control. */
struct sn_control_parts {
    struct sn_nic *nic;
    struct sn_port *port;
    const struct sn_config *config;
    struct sn_thread *thread;
    uint64_t started;     /* CLOCK_MONOTONIC, ns */
    const char *settings; /* GPUWIRE_NIC as it was then: the program may have changed its environment since */
    sn_device_event *event;
};

struct sn_control;

/* 0 or a negative errno: then `gpuwire nic` does not see it, and everything else works. */
int sn_control_start(const struct sn_control_parts *parts, struct sn_control **control);
/* Within the time that one answer takes, some seconds at most. NULL is fine. */
void sn_control_stop(struct sn_control *control);
int sn_control_fd(const struct sn_control *control); /* to be closed in a forked child */

/* control_show.c: writes the answer to "show" to f. qpn: of queue pairs that one alone; 0: all. */
void sn_control_show(const struct sn_control_parts *parts, uint32_t qpn, FILE *f);
/* A string as JSON writes it, quotes included. */
void sn_json_string(FILE *f, const char *text);

#endif
