# gw_kernels(TARGET NAME…): adds kernel sources to a target. NAME.c defines the CPU side and NAME.cu the GPU side of the
# same kernels: both include the file that holds them (NAME.h by custom). Without nvcc the GPU side is left out.
#
# Programs share the objects: a test's kernels take nvcc up to a minute, and several tests use the same ones. A library
# compiles its own, with its own options.
function(gw_kernels target)
  get_target_property(type ${target} TYPE)
  foreach(name IN LISTS ARGN)
    get_filename_component(path ${CMAKE_CURRENT_SOURCE_DIR}/${name} ABSOLUTE)
    set(sources ${path}.c)
    if(GW_HAVE_CUDA)
      list(APPEND sources ${path}.cu)
    endif()
    if(type STREQUAL "EXECUTABLE")
      file(RELATIVE_PATH objects ${CMAKE_SOURCE_DIR} ${path})
      string(REPLACE "/" "_" objects "kernels_${objects}")
      if(NOT TARGET ${objects})
        add_library(${objects} OBJECT ${sources})
      endif()
      set(sources $<TARGET_OBJECTS:${objects}>)
    endif()
    target_sources(${target} PRIVATE ${sources})
  endforeach()
endfunction()
