# SPDX-License-Identifier: Apache-2.0
# cmake -DNAME= -DIN= -DOUT= -P embed.cmake: a header with the bytes of a file.
function(embed name in out mode)
  file(READ ${in} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  file(${mode} ${out} "static const unsigned char ${name}[] = {${bytes}};\n")
endfunction()

if(NAME)
  embed(${NAME} ${IN} ${OUT} WRITE)
endif()
