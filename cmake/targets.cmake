# What every target is built with, and the two ways a directory declares its code.
include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR})
add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra>
                    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-fvisibility=hidden>)
add_compile_definitions(_GNU_SOURCE)
if(GW_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(GW_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-fsanitize=${GW_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>)
  string(REPLACE "," "$<COMMA>" list "${GW_SANITIZE}") # a comma separates a generator expression's arguments
  add_link_options($<HOST_LINK:-fsanitize=${list}>)   # nvcc's device linker knows no sanitizers
endif()

# gw_traced(TARGET): its sources have their tracepoints (src/trace/trace.h).
function(gw_traced target)
  if(GW_HAVE_SDT)
    target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:GW_HAVE_SDT=1>)
  endif()
endfunction()

# gw_module(NAME SOURCES … LIBS …): a static library that the shared libraries and the tests are made from.
function(gw_module name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_LIBS})
  gw_traced(${name})
endfunction()

# gw_embed(OUT FILE…): the files of this folder become a C source, whose path is put into the variable OUT (cmake/embed.cmake).
function(gw_embed out)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded.c)
  add_custom_command(OUTPUT ${source} COMMAND ${CMAKE_COMMAND} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake ${source} ${files}
                     DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake ${CMAKE_SOURCE_DIR}/src/door/page/head.html VERBATIM)
  set(${out} ${source} PARENT_SCOPE)
endfunction()

# A test that has not ended by then, in seconds, hangs. It says nothing of how long tests take: a busy machine, or a
# sanitizer, may well need ten times as long as others. GW_PATIENCE is what its parts may take (tests/integration/lib.sh).
set(GW_TIMEOUT 600)
set(GW_PATIENCE 120)
if(GW_SANITIZE)
  math(EXPR GW_TIMEOUT "4 * ${GW_TIMEOUT}")
  math(EXPR GW_PATIENCE "4 * ${GW_PATIENCE}")
endif()

# gw_test(NAME SOURCES … LIBS … [ENV k=v …] [LABELS …] [OWN_NET]): a cmocka program run by ctest. With OWN_NET it runs in a
# network of its own. Where it may make none, it runs alone.
function(gw_test name)
  cmake_parse_arguments(A "OWN_NET" "" "SOURCES;LIBS;ENV;LABELS" ${ARGN})
  if(NOT CMOCKA_FOUND)
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LIBS} PkgConfig::CMOCKA Threads::Threads)
  if(A_OWN_NET)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/own_net.sh $<TARGET_FILE:${name}>)
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tests/own_net.sh --check RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
    if(refused)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${GW_TIMEOUT} ENVIRONMENT "${A_ENV}" LABELS "${A_LABELS}")
endfunction()

# gw_own_rpath(TARGET): an installed target has in the build tree the library path that it will have. CMake would reserve
# room for that path with colons, each of which makes the loader look in the current folder, where any user may have written.
function(gw_own_rpath target)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# gw_busy(TEST…): these keep a processor busy much of the time, and count twice (scripts/jobs.sh). They begin first: the
# others then fill what they leave, and no processor waits at the end.
function(gw_busy)
  foreach(test IN LISTS ARGN)
    if(TEST ${test})
      set_tests_properties(${test} PROPERTIES PROCESSORS 2 COST 1000)
    endif()
  endforeach()
endfunction()

# gw_fuzzer(NAME SOURCES … LIBS …): a libFuzzer target; with GW_FUZZ only, and clang as the compiler.
function(gw_fuzzer name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  if(NOT GW_FUZZ)
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LIBS})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# For tests under mpirun: libpmix leaves five bytes unfreed in each process, which a sanitizer would take for ours.
set(GW_PMIX_LEAKS ASAN_OPTIONS=detect_leaks=0)

# gw_sanitizer_runtimes(VAR): what programs that know nothing of sanitizers need in their environment to be run with
# libraries that do: the runtime is put into them first. What the programs themselves leave unfreed is theirs.
function(gw_sanitizer_runtimes var)
  set(${var} "" PARENT_SCOPE)
  if(NOT GW_SANITIZE)
    return()
  endif()
  set(runtimes "")
  foreach(name IN ITEMS asan ubsan tsan)
    string(REPLACE "address" "asan" on "${GW_SANITIZE}")
    string(REPLACE "undefined" "ubsan" on "${on}")
    string(REPLACE "thread" "tsan" on "${on}")
    if(on MATCHES "(^|,)${name}(,|$)")
      execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${name}.so OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
      file(REAL_PATH "${file}" file)
      list(APPEND runtimes "${file}")
    endif()
  endforeach()
  list(JOIN runtimes ":" runtimes)
  set(${var} "SANITIZER=${runtimes}" "ASAN_OPTIONS=detect_leaks=0"
             "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp" PARENT_SCOPE)
endfunction()
