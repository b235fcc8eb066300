/* SPDX-License-Identifier: Apache-2.0 */
/* Clears a queue that the software NIC reads, too. ThreadSanitizer does not see into libmlx5, which rings the
 * NIC. For ThreadSanitizer, nothing orders the test's own stores before the NIC's loads. So it does not see
 * these, either. */
#ifndef GW_TESTS_MLX5_CLEAR_QUEUE_H
#define GW_TESTS_MLX5_CLEAR_QUEUE_H

#include <stddef.h>
#include <stdint.h>

/* bytes is a multiple of 8. volatile: memset would be seen. */
__attribute__((no_sanitize_thread)) static inline void clear_queue(void *at, size_t bytes)
{
    volatile uint64_t *words = at;

    for (size_t i = 0; i < bytes / sizeof(*words); i++) words[i] = 0;
}

#endif
