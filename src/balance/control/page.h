/* SPDX-License-Identifier: Apache-2.0 */
/* The page that a browser gets at /: it asks the API every second. */
#ifndef GW_BALANCE_CONTROL_PAGE_H
#define GW_BALANCE_CONTROL_PAGE_H

extern const char gw_bal_page[];

#endif
