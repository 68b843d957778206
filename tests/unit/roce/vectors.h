// Known-good packets. Source: Scapy's test/contrib/roce.uts; the first three were captured from
// hardware (ConnectX-4 Lx and others).
#pragma once

#include <string_view>

namespace verbena::test {

/// RoCE v2 over IPv4, CNP to QP 0x118; whole frame, ICRC 82fd002a.
inline constexpr std::string_view cnp_frame =
    "e41d2dab2bc2 7cfe90643b32 0800"
    "45c2003c718c4000401191610a0011010a001201"
    "000012b700280000"
    "8100ffff4000011800000000"
    "00000000000000000000000000000000"
    "82fd002a";

/// RoCE v1, RC RDMA WRITE Only; whole frame, ICRC e3d856bb.
inline constexpr std::string_view v1_write_frame =
    "7cfe90753cd8 7cfe90753cd8 8915"
    "6020000000281b40"
    "00000000000000000000ffff0f000002"
    "00000000000000000000ffff0f000002"
    "0a70ffff0000010a80a788bc"
    "000055d4c0726000000047b300000005"
    "0000000001000000"
    "e3d856bb";

/// RoCE v1, RC Acknowledge; whole frame, ICRC 25f0c038.
inline constexpr std::string_view v1_ack_frame =
    "7cfe90753cd8 7cfe90753cd8 8915"
    "6020000000141b40"
    "00000000000000000000ffff0f000002"
    "00000000000000000000ffff0f000002"
    "1140ffff0000010900a788c0"
    "00000005"
    "25f0c038";

/// RoCE v2 over IPv4, UC SEND Only; from the IP header to the pad, ICRC 78f353f3.
inline constexpr std::string_view uc_ipv4_packet =
    "45010040047840004011b4d5c0a80007c0a80007"
    "c00012b7002caca2"
    "2460ffff000000d300cf1710"
    "4630818be28935d90e9a95505401be885e500000";

/// RoCE v2 over IPv6, UC SEND Only; from the IP header to the pad, ICRC 3e5b743b.
inline constexpr std::string_view uc_ipv6_packet =
    "6e21face002c11ff"
    "20220000000000000000000000001023"
    "20230000000000000000000000001024"
    "c00012b7002ce7c5"
    "2460ffff000000d300cf1710"
    "4630818be28935d90e9a95505401be885e500000";

}  // namespace verbena::test
