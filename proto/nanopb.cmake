# SPDX-License-Identifier: Apache-2.0
# nanopb (Debian: nanopb, libnanopb-dev, protobuf-compiler). Debian 12 and Ubuntu 24.04 put the
# pieces at different places, so they are searched for. Result: target nanopb_runtime and
# function posed_generate_nanopb.
find_program(POSED_PROTOC protoc)
find_program(POSED_NANOPB_PLUGIN NAMES protoc-gen-nanopb)
find_path(POSED_NANOPB_INCLUDE pb_encode.h PATH_SUFFIXES nanopb)
find_library(POSED_NANOPB_LIBRARY NAMES protobuf-nanopb)
if(NOT POSED_PROTOC OR NOT POSED_NANOPB_PLUGIN OR NOT POSED_NANOPB_INCLUDE OR NOT POSED_NANOPB_LIBRARY)
  message(FATAL_ERROR "nanopb or protoc is missing (Debian: nanopb libnanopb-dev protobuf-compiler). "
    "Install them, or configure with -DPOSED_DAEMON=OFF.")
endif()
add_library(nanopb_runtime INTERFACE)
target_include_directories(nanopb_runtime SYSTEM INTERFACE ${POSED_NANOPB_INCLUDE})
target_link_libraries(nanopb_runtime INTERFACE ${POSED_NANOPB_LIBRARY})

# posed_generate_nanopb(target schema...): a static library with the C code of the schemas of this
# folder, included as "<folder>/<schema>.pb.h", and their Python modules in <build>/python.
function(posed_generate_nanopb target)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(out ${PROJECT_BINARY_DIR}/generated/${folder})
  set(python ${PROJECT_BINARY_DIR}/python)
  file(MAKE_DIRECTORY ${out} ${python})
  set(generated)
  set(modules)
  foreach(schema ${ARGN})
    list(APPEND generated ${out}/${schema}.pb.c ${out}/${schema}.pb.h)
    list(APPEND modules ${python}/${schema}_pb2.py)
    list(APPEND inputs ${CMAKE_CURRENT_SOURCE_DIR}/${schema}.proto)
    list(APPEND options ${CMAKE_CURRENT_SOURCE_DIR}/${schema}.options)
  endforeach()
  add_custom_command(OUTPUT ${generated} ${modules}
    COMMAND ${POSED_PROTOC} -I${CMAKE_CURRENT_SOURCE_DIR}
      --plugin=protoc-gen-nanopb=${POSED_NANOPB_PLUGIN}
      --nanopb_out=-I${CMAKE_CURRENT_SOURCE_DIR}:${out} --python_out=${python} ${inputs}
    DEPENDS ${inputs} ${options}
    COMMENT "nanopb: ${ARGN}" VERBATIM)
  add_library(${target} STATIC ${generated})
  target_include_directories(${target} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PUBLIC nanopb_runtime)
endfunction()
