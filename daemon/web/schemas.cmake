# SPDX-License-Identifier: Apache-2.0
# cmake -DPROTOC= -DPROTO= -DOUT= -P schemas.cmake: schema_foxglove and schema_posed, the
# FileDescriptorSets of proto/posed.proto in these packages.
include(${CMAKE_CURRENT_LIST_DIR}/embed.cmake)
get_filename_component(folder ${OUT} DIRECTORY)
file(READ ${PROTO} text)
string(REGEX REPLACE "message Timestamp {[^}]*}" "" text "${text}")
string(REGEX REPLACE "([ (])Timestamp " "\\1google.protobuf.Timestamp " text "${text}")
# protoc's own copy of this file is in a package that nothing else here needs.
file(WRITE ${folder}/schema/google/protobuf/timestamp.proto "syntax = \"proto3\";
package google.protobuf;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
")
file(WRITE ${OUT} "")
foreach(package foxglove posed)
  string(REPLACE "package posed;"
    "package ${package};\nimport \"google/protobuf/timestamp.proto\";" schema "${text}")
  file(WRITE ${folder}/schema/${package}/posed.proto "${schema}")
  execute_process(COMMAND ${PROTOC} -I${folder}/schema --include_imports
    --descriptor_set_out=${folder}/${package}.binpb ${package}/posed.proto COMMAND_ERROR_IS_FATAL ANY)
  embed(schema_${package} ${folder}/${package}.binpb ${OUT} APPEND)
endforeach()
