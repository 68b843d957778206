# verbena_drop_in(TARGET VERSION_MAP file)
#
# What a library needs that takes the place of a system library in a program we know nothing of:
#
# - It exports what the version map names, nothing else, and loads no library that it doesn't call.
# - It brings its own libstdc++, so that it doesn't matter which one the program has. Not its own
#   libgcc: a thread that is cancelled while it waits in here is unwound by the process's libgcc_s,
#   and a second unwinder would be asked about that one's state.
# - It can't be unloaded: its background thread runs in its code.
# - Every symbol must resolve when it is linked, not in a user's program.
function(verbena_drop_in target)
  cmake_parse_arguments(arg "" "VERSION_MAP" "" ${ARGN})
  cmake_path(ABSOLUTE_PATH arg_VERSION_MAP OUTPUT_VARIABLE map)
  target_link_options(
    ${target}
    PRIVATE
    -Wl,--version-script=${map}
    -Wl,--exclude-libs,ALL
    -Wl,--as-needed
    -Wl,-Bsymbolic-functions
    -Wl,-z,nodelete
    -Wl,-z,now)
  if(NOT VERBENA_SANITIZE)
    # A sanitizer's run-time library is found in the executable only, so -z defs can't hold there.
    target_link_options(${target} PRIVATE -static-libstdc++ -shared-libgcc -Wl,-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
