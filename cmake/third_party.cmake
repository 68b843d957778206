# Every third-party library, with the target to link to. Debian 12's packages; `dev` installs them.
#
#   ISA-L          PkgConfig::isal                CRC-32, CRC-32C
#   libpcap        PkgConfig::pcap
#   Boost          Boost::headers                 headers only: Asio, Endian, Intrusive
#   fmt            fmt::fmt                       fmt::fmt-header-only inside the drop-ins
#   CLI11          CLI11::CLI11
#   toml++         verbena_toml                   headers only, errors as values
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
find_package(fmt 9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(tomlplusplus 3.3 REQUIRED)
# Debian's toml++ is a shared library that throws. Its headers alone do without both: the drop-ins
# may not depend on it.
add_library(verbena_toml INTERFACE)
target_compile_definitions(verbena_toml INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)
# Some of its assertions fail on malformed text for which it has an error right behind them.
target_compile_options(verbena_toml INTERFACE "-DTOML_ASSERT(expr)=static_cast<void>(0)")
find_package(nlohmann_json 3.11 REQUIRED)

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
