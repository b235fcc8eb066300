# cmake -P embed.cmake OUT FILE...: writes a C source with the bytes of each file, gw_embedded_NAME_EXTENSION, and how
# many they are.
set(out ${CMAKE_ARGV3})
set(text "/* Made by cmake/embed.cmake. */\n#include <stddef.h>\n")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 4 ${last})
  set(file ${CMAKE_ARGV${i}})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND text "extern const unsigned char gw_embedded_${name}[];\nextern const size_t gw_embedded_${name}_bytes;\n"
         "const unsigned char gw_embedded_${name}[] = {\n${hex}};\n"
         "const size_t gw_embedded_${name}_bytes = sizeof(gw_embedded_${name});\n")
endforeach()
file(WRITE ${out} "${text}")
