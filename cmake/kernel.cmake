# gw_kernels(TARGET NAME…): adds kernel sources to a target. NAME.c defines the CPU side and NAME.cu the GPU side of the same
# kernels: both include the file that holds them (NAME.h by custom). Without nvcc the GPU side is left out.
function(gw_kernels target)
  foreach(name IN LISTS ARGN)
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${name}.c)
    if(GW_HAVE_CUDA)
      target_sources(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${name}.cu)
    endif()
  endforeach()
endfunction()
