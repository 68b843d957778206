# verbena_fuzz_target(NAME SOURCES file... [LIBS target...])
#
# A libFuzzer program, fuzz/<NAME>; NAME ends in _fuzz. `./dev fuzz` runs it with the seeds in
# tests/data/fuzz/<NAME>/, if there are any.
function(verbena_fuzz_target name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  if(NOT name MATCHES "_fuzz$")
    message(FATAL_ERROR "The name of a fuzz target ends in _fuzz, which ${name} doesn't")
  endif()
  # Git keeps no empty folder, and libFuzzer refuses a folder that isn't there.
  if(NOT IS_DIRECTORY "${PROJECT_SOURCE_DIR}/tests/data/fuzz/${name}")
    message(FATAL_ERROR "${name} has no inputs to begin with: tests/data/fuzz/README.md")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
