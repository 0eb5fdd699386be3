# SPDX-License-Identifier: Apache-2.0
# How a test is registered: one line in the CMakeLists.txt of its folder.
#
#   posed_test_unit(proto/se3)              tests/unit/proto/test_se3.c, cmocka
#   posed_test_check(track/steps)           tests/check/track/check_steps.c, twins against each other
#   posed_test_scenario(standing_still.py)  tests/scenario/standing_still.py, the real daemon
#   posed_test_fuzz(image)                  tests/fuzz/fuzz_image.c over tests/fuzz/seeds/image/*
#
# All take SOURCES (further files), LIBRARIES (further targets), LABELS, TIMEOUT (seconds), SERIAL
# (nothing else runs beside it: for tests that measure time), LONG (half a minute and more, perhaps
# under a sanitizer only: begins first), PROCESSORS (how many it keeps busy, default 1) and ARGS (of
# the test's command line).
# The label is the folder's name; add `data` to a test that reads recordings from POSED_DATA.
#
# Skipping: a test that cannot run here (no recordings, no CUDA device) prints one line
# `SKIP: <reason>` and exits 77; a test that leaves out a part prints such a line for the part and
# goes on. tools/test counts and lists these lines, so that no skip stays unseen.
#
# Environment of every test: POSED_SOURCE_DIR, POSED_BINARY_DIR (programs are in its bin/),
# POSED_DATA as the caller has it, and for the sanitizers what is none of ours (tests/leaks.txt,
# tests/races.txt).

function(posed_register_test label name timeout)
  cmake_parse_arguments(PARSE_ARGV 3 arg "SERIAL;LONG" "TIMEOUT;PROCESSORS" "COMMAND;LABELS;ARGS")
  if(arg_TIMEOUT)
    set(timeout ${arg_TIMEOUT})
  endif()
  set(cost ${timeout}) # what may take longest begins first: nothing is waited for at the end
  if(arg_LONG)
    set(cost 10000)
  endif()
  add_test(NAME ${label}/${name} COMMAND ${arg_COMMAND} ${arg_ARGS})
  set_tests_properties(${label}/${name} PROPERTIES
    SKIP_RETURN_CODE 77
    TIMEOUT ${timeout}
    COST ${cost}
    LABELS "${label};${arg_LABELS}"
    ENVIRONMENT "POSED_SOURCE_DIR=${PROJECT_SOURCE_DIR};POSED_BINARY_DIR=${PROJECT_BINARY_DIR};\
LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/leaks.txt:print_suppressions=0;\
TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/races.txt:print_suppressions=0")
  if(arg_SERIAL)
    set_tests_properties(${label}/${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(arg_PROCESSORS)
    set_tests_properties(${label}/${name} PROPERTIES PROCESSORS ${arg_PROCESSORS})
  endif()
endfunction()

# All test programs of one kind are built by the target <label>_tests, without what only others need.
function(posed_test_group label target)
  if(NOT TARGET ${label}_tests)
    add_custom_target(${label}_tests)
  endif()
  add_dependencies(${label}_tests ${target})
endfunction()

# A C test program <prefix>_<name> from <folder>/<prefix>_<name>.c, linked with all that has no
# dependency; `path` is <folder>/<name>.
function(posed_test_program label prefix path timeout)
  cmake_parse_arguments(PARSE_ARGV 4 arg "SERIAL;LONG" "TIMEOUT;PROCESSORS"
    "SOURCES;LIBRARIES;LABELS;ARGS")
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(name ${path} NAME)
  set(target ${prefix}_${name})
  add_executable(${target} ${folder}/${target}.c ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE posed_warnings ${arg_LIBRARIES}
    posed_capture posed_gpu posed_proto Threads::Threads m)
  posed_test_group(${label} ${target})
  set(options LABELS ${arg_LABELS} ARGS ${arg_ARGS})
  if(arg_TIMEOUT)
    list(APPEND options TIMEOUT ${arg_TIMEOUT})
  endif()
  if(arg_PROCESSORS)
    list(APPEND options PROCESSORS ${arg_PROCESSORS})
  endif()
  foreach(option SERIAL LONG)
    if(arg_${option})
      list(APPEND options ${option})
    endif()
  endforeach()
  posed_register_test(${label} ${path} ${timeout} COMMAND ${target} ${options})
endfunction()

# cmocka marks no test program as skipped: a program whose every test needs recordings returns 77
# from main() itself. FAILS: the test has calls of the C library fail (tests/unit/fails.h).
function(posed_test_unit path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FAILS" "" "")
  posed_test_program(unit test ${path} 600 ${arg_UNPARSED_ARGUMENTS}
    LIBRARIES PkgConfig::CMOCKA)
  if(arg_FAILS)
    get_filename_component(name ${path} NAME)
    target_sources(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/fails.c)
    foreach(call malloc calloc realloc aligned_alloc strdup open_memstream open fopen fdopen fwrite
        fflush pwrite sendmsg fsync ftruncate rename lstat fstat chmod chown socket bind listen accept4
        getsockname getpeername getsockopt getifaddrs getrlimit setrlimit epoll_create1 epoll_ctl
        eventfd openat fdopendir syscall)
      target_link_options(test_${name} PRIVATE -Wl,--wrap=${call})
    endforeach()
  endif()
endfunction()

# Under a sanitizer, which is slow, without the largest images and sets: the odd sizes find what
# reads or writes beside its memory.
function(posed_test_check path)
  set(small)
  if(CMAKE_C_FLAGS MATCHES "-fsanitize" AND NOT "ARGS" IN_LIST ARGN)
    set(small ARGS --max-px 20000)
  endif()
  posed_test_program(check check ${path} 900 ${ARGN} ${small})
endfunction()

# A scenario is a Python script or an executable one; it starts the daemon itself, with endpoints
# of its own, so that scenarios may run beside each other.
function(posed_test_scenario script)
  get_filename_component(name ${script} NAME_WE)
  set(command ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  if(script MATCHES "\\.py$")
    list(PREPEND command ${POSED_PYTHON})
  endif()
  posed_register_test(scenario ${name} 300 ${ARGN} COMMAND ${command})
endfunction()

# A fuzz target defines LLVMFuzzerTestOneInput. Any compiler replays the seeds through it (each
# seed, each truncation, bit flips, failing calls: tests/fuzz/replay.c). clang also links libFuzzer: the program
# fuzz_<stem> then takes libFuzzer's options, and ctest runs it for a few seconds; the first input
# of some counts the drawing of an object, so that a hang is one only after a minute. SETUP: the
# target makes something first without which it can do nothing: its calls do not fail.
function(posed_test_fuzz stem)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SETUP;LONG" "" "SOURCES;LIBRARIES;LABELS")
  set(seeds ${CMAKE_CURRENT_SOURCE_DIR}/seeds/${stem})
  set(libraries posed_warnings ${arg_LIBRARIES} posed_capture posed_gpu posed_proto m)
  add_executable(replay_${stem} fuzz_${stem}.c replay.c ${arg_SOURCES})
  target_link_libraries(replay_${stem} PRIVATE ${libraries})
  foreach(call malloc calloc realloc aligned_alloc strdup open_memstream open fopen fdopen)
    target_link_options(replay_${stem} PRIVATE -Wl,--wrap=${call}) # replay.c makes them fail
  endforeach()
  posed_test_group(fuzz replay_${stem})
  set(failures)
  if(arg_SETUP)
    set(failures --no-failures)
  endif()
  set(long)
  if(arg_LONG)
    set(long LONG)
  endif()
  posed_register_test(fuzz ${stem} 300 ${long} LABELS ${arg_LABELS}
    COMMAND replay_${stem} ${seeds} ${failures})
  if(POSED_LIBFUZZER)
    add_executable(fuzz_${stem} fuzz_${stem}.c ${arg_SOURCES})
    target_link_libraries(fuzz_${stem} PRIVATE ${libraries})
    target_link_options(fuzz_${stem} PRIVATE -fsanitize=fuzzer)
    posed_test_group(libfuzzer fuzz_${stem})
    set(corpus ${CMAKE_CURRENT_BINARY_DIR}/corpus/${stem})
    file(MAKE_DIRECTORY ${corpus})
    posed_register_test(fuzz libfuzzer_${stem} 120 LABELS ${arg_LABELS}
      COMMAND fuzz_${stem} -max_total_time=3 -timeout=60 -print_final_stats=1
        -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/${stem}- ${corpus} ${seeds})
  endif()
endfunction()

# A script of tests/ that looks at the source tree.
function(posed_test_tree script)
  posed_register_test(tree ${script} 600 ${ARGN} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script})
endfunction()
