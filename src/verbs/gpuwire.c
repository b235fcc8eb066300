/* SPDX-License-Identifier: Apache-2.0 */
/* libgpuwire is made of static libraries; what it adds is its version, for those who load it at run time. */
#include <gpuwire/verbs.h>

const char *gw_version(void)
{
    return GW_VERSION;
}
