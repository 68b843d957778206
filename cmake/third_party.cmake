# Every third-party library, with the target to link to. Debian 12's packages; `dev` installs them.
#
#   ISA-L          PkgConfig::isal                CRC-32, CRC-32C
#   libpcap        PkgConfig::pcap
#   Boost          Boost::headers                 headers only: Asio, Endian, Intrusive
#   fmt            verbena_fmt                    Debian's headers, compiled by us: cmake/fmt.cpp
#   CLI11          CLI11::CLI11
#   toml++         verbena_base                   headers, compiled by us: #include "base/toml.h"
#   nlohmann-json  nlohmann_json::nlohmann_json
#   Catch2 2.13    Catch2::Catch2                 tests: use verbena_unit_test()
#   rapidcheck     rapidcheck                     tests
#   Benchmark      benchmark::benchmark           bench

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(pcap REQUIRED IMPORTED_TARGET libpcap)
# 1.74, which libboost-dev installs, has an Asio that doesn't compile as C++20.
find_package(Boost 1.81 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(tomlplusplus 3.3 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)

find_package(fmt 9.1 REQUIRED)
add_library(verbena_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
target_include_directories(
  verbena_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)

if(BUILD_TESTING)
  find_package(Catch2 2.13 REQUIRED)
  include(Catch)
  find_package(rapidcheck REQUIRED)
  # Debian's own Python, whose packages (pytest) apt installs; not one that a user put before it.
  set(Python3_EXECUTABLE /usr/bin/python3)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
if(VERBENA_BENCH)
  find_package(benchmark 1.7 REQUIRED)
endif()
