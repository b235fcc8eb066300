/* SPDX-License-Identifier: Apache-2.0 */
/* errno_text.h: what an errno says to a person, with the remedy where there is one that helps everywhere. */
#ifndef SOFTNIC_BASE_ERRNO_TEXT_H
#define SOFTNIC_BASE_ERRNO_TEXT_H

#include <errno.h>
#include <string.h>

/* err: positive. As strerror, whose memory the result may be in. */
static inline const char *sn_errno_text(int err)
{
    return err == EMFILE ? "this process has no file descriptor left: raise its limit (`ulimit -n`)"
                         : strerror(err);
}

#endif
