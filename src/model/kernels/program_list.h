/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that a program may be made of, in the order of their numbers. ALL: the grid shares the work,
 * whatever its size; EACH: the work is cut into blocks. */
#ifndef GW_MODEL_KERNELS_PROGRAM_LIST_H
#define GW_MODEL_KERNELS_PROGRAM_LIST_H

#define GWM_PROGRAM_KERNELS(ALL, EACH)                                                                       \
    ALL(gwm_conv_direct, gwm_direct_args)                                                                    \
    ALL(gwm_deconv_kernel, gwm_direct_args)                                                                  \
    ALL(gwm_pool_kernel, gwm_pool_args)                                                                      \
    ALL(gwm_thin_kernel, gwm_gemm_args)                                                                      \
    ALL(gwm_unary_kernel, gwm_unary_args)                                                                    \
    ALL(gwm_unary_int_kernel, gwm_unary_args)                                                                \
    ALL(gwm_fill_kernel, gwm_fill_args)                                                                      \
    ALL(gwm_binary_kernel, gwm_binary_args)                                                                  \
    ALL(gwm_binary8_kernel, gwm_binary_args)                                                                 \
    ALL(gwm_binary_int_kernel, gwm_binary_args)                                                              \
    ALL(gwm_move_kernel, gwm_move_args)                                                                      \
    ALL(gwm_move8_kernel, gwm_move_args)                                                                     \
    ALL(gwm_reduce_thread_kernel, gwm_reduce_args)                                                           \
    ALL(gwm_cumsum_kernel, gwm_cumsum_args)                                                                  \
    ALL(gwm_gather_kernel, gwm_gather_args)                                                                  \
    ALL(gwm_interp_kernel, gwm_interp_args)                                                                  \
    ALL(gwm_select_kernel, gwm_select_args)                                                                  \
    ALL(gwm_convert_kernel, gwm_convert_args)                                                                \
    EACH(gwm_mean_kernel, gwm_mean_args)                                                                     \
    EACH(gwm_softmax_kernel, gwm_softmax_args)                                                               \
    EACH(gwm_norm_kernel, gwm_norm_args)                                                                     \
    EACH(gwm_reduce_kernel, gwm_reduce_args)

enum gwm_program_kernel {
#define GWM_NUMBER(name, type) GWM_DO_##name,
    GWM_PROGRAM_KERNELS(GWM_NUMBER, GWM_NUMBER)
#undef GWM_NUMBER
};

#endif
