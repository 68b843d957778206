# Options that all of our code is compiled with. Third-party headers come in through imported
# targets, as system headers, and are exempt from the warnings.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)

# Every library may end up in a drop-in .so, which exports only what its version map names.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Includes are written from the project's root: #include "base/crc.h".
include_directories(${PROJECT_SOURCE_DIR})

add_compile_options(-Wall -Wextra -Wpedantic -Wconversion -Wshadow
                    $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast>)
if(VERBENA_WERROR)
  add_compile_options(-Werror)
endif()

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # At -O3 g++ 12 sees fmt's format strings overflow a buffer whose length they check. The other
  # presets keep the warning.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
endif()

if(VERBENA_SANITIZE)
  add_compile_options(-fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${VERBENA_SANITIZE})
  if(VERBENA_SANITIZE MATCHES "undefined")
    # A finding ends the test; by default UBSan only prints.
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(VERBENA_SANITIZE MATCHES "address")
    # With ASan's instrumentation g++ 12 sees uninitialised members in std::regex and std::function
    # that aren't. The other presets keep the warning.
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
  if(VERBENA_SANITIZE MATCHES "thread")
    # g++ warns that TSan ignores std::atomic_thread_fence, in the standard library's own headers.
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
