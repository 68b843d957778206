// Appends pcapng blocks to a buffer of bytes. No I/O: the writer's pure half.
#pragma once

#include <cstddef>
#include <vector>

#include "pcap/pcapng_writer.h"
#include "pcap/record.h"

namespace verbena::pcap {

void append_section_header(std::vector<std::byte>& out, const SectionInfo& info);
void append_interface_description(std::vector<std::byte>& out, const InterfaceInfo& info);
void append_enhanced_packet(std::vector<std::byte>& out, const Record& record);
void append_interface_statistics(std::vector<std::byte>& out, InterfaceId interface,
                                 const InterfaceStatistics& statistics);

}  // namespace verbena::pcap
