#include "cli/top_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "ports/stats_file.h"

namespace verbena::cli {
namespace {

/// What is shown of a device or a queue pair, each per second.
struct Rates {
  double bytes_out = 0;
  double bytes_in = 0;
  double packets = 0;
  double retransmissions = 0;
  double naks = 0;
  double rnrs = 0;
  double timeouts = 0;
  double duplicates = 0;
  double drops = 0;

  [[nodiscard]] double bytes() const { return bytes_out + bytes_in; }
};

/// How much each counter grew, and in how many seconds. No time: it counted nothing.
struct Growth {
  Counters::Values counts{};
  double seconds = 0;

  [[nodiscard]] double per_second(std::initializer_list<Counter> counters) const {
    std::uint64_t sum = 0;
    for (const Counter counter : counters) {
      sum += counts[static_cast<std::size_t>(counter)];
    }
    return seconds > 0 ? static_cast<double>(sum) / seconds : 0;
  }
};

std::uint64_t dropped(const Counters::Values& counts) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts_drops(static_cast<Counter>(i)) ? counts[i] : 0;
  }
  return sum;
}

Counters::Values difference(const Counters::Values& now, const Counters::Values& before) {
  Counters::Values growth{};
  for (std::size_t i = 0; i < growth.size(); ++i) {
    growth[i] = now[i] >= before[i] ? now[i] - before[i] : now[i];
  }
  return growth;
}

Rates rates_of(const Growth& growth) {
  return {
      .bytes_out = growth.per_second({Counter::tx_bytes}),
      .bytes_in = growth.per_second({Counter::rx_bytes}),
      .packets = growth.per_second({Counter::sent_pkts, Counter::rcvd_pkts}),
      .retransmissions = growth.per_second({Counter::retransmitted_pkts}),
      .naks = growth.per_second({Counter::packet_seq_err, Counter::implied_nak_seq_err,
                                 Counter::req_remote_invalid_request,
                                 Counter::req_remote_access_errors}),
      .rnrs = growth.per_second({Counter::rcvd_rnr_err, Counter::send_rnr_err}),
      .timeouts = growth.per_second({Counter::local_ack_timeout_err}),
      .duplicates = growth.per_second({Counter::duplicate_request}),
      .drops =
          growth.seconds > 0 ? static_cast<double>(dropped(growth.counts)) / growth.seconds : 0,
  };
}

struct DeviceRow {
  const ports::DeviceStatistics* device;
  Growth growth;
  Rates rates;
};

struct QpRow {
  const ports::DeviceStatistics* device;
  const ports::QpStatistics* qp;
  Rates rates;
};

/// A device publishes when it does something. What it had not told at the first look, it did
/// shortly before it, so that a burst isn't spread over the quiet hour before.
double seconds_between(const Observed& before, const ports::DeviceStatistics& was,
                       const ports::DeviceStatistics& is) {
  const Time from = std::max(was.published, before.time - ports::publishing_interval);
  return std::chrono::duration<double>(is.published - from).count();
}

void add_rows(const Observed& before, const ports::DeviceStatistics& device,
              std::vector<DeviceRow>& devices, std::vector<QpRow>& qps) {
  const auto same_device = [&](const ports::DeviceStatistics& other) {
    return other.life == device.life && other.pid == device.pid && other.device == device.device;
  };
  const auto was = std::ranges::find_if(before.devices, same_device);
  const bool is_known = was != before.devices.end();
  const double seconds = is_known ? seconds_between(before, *was, device) : 0;
  const Growth growth{
      .counts = is_known ? difference(device.counters, was->counters) : Counters::Values{},
      .seconds = seconds};
  devices.push_back({&device, growth, rates_of(growth)});
  for (const ports::QpStatistics& qp : device.qps) {
    Counters::Values counts{};
    if (is_known) {
      const auto qp_was = std::ranges::find(was->qps, qp.qpn, &ports::QpStatistics::qpn);
      counts = qp_was != was->qps.end() ? difference(qp.counters, qp_was->counters) : qp.counters;
    }
    qps.push_back({&device, &qp, rates_of({.counts = counts, .seconds = seconds})});
  }
}

template <class Row>
void sort_by_rate(std::vector<Row>& rows) {
  // Stable: rows that do nothing keep their places.
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [](const Row& row) { return row.rates.bytes(); });
}

std::string text_of(const Rates& rates) {
  return fmt::format(
      "{:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6}", short_number(rates.bytes_out),
      short_number(rates.bytes_in), short_number(rates.packets),
      short_number(rates.retransmissions), short_number(rates.naks), short_number(rates.rnrs),
      short_number(rates.timeouts), short_number(rates.duplicates), short_number(rates.drops));
}

std::string rates_heading() {
  return fmt::format("{:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6}", "B/s out", "B/s in",
                     "pkts/s", "retx/s", "NAK/s", "RNR/s", "tmo/s", "dup/s", "drop/s");
}

/// "dropped by process 123: rx_drop_unknown_qp 3, rx_icrc_encapsulated 1"; empty if nothing was.
std::string drops_of(const DeviceRow& row) {
  std::string reasons;
  for (std::size_t i = 0; i < counter_count; ++i) {
    if (counts_drops(static_cast<Counter>(i)) && row.growth.counts[i] > 0) {
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", counter_names[i],
                             row.growth.counts[i]);
    }
  }
  return reasons.empty() ? reasons
                         : fmt::format("dropped by process {}: {}", row.device->pid, reasons);
}

std::string line_of(const DeviceRow& row) {
  return fmt::format("{:>8} {:16.16} {:12.12} {:>6} {}", row.device->pid, row.device->program,
                     row.device->device, row.device->objects.qps, text_of(row.rates));
}

std::string line_of(const QpRow& row) {
  return fmt::format("{:>8} 0x{:06x} {:6} {:29.29} {}", row.device->pid, to_value(row.qp->qpn),
                     nic::name_of(row.qp->state), peer_text(*row.qp), text_of(row.rates));
}

}  // namespace

std::string short_number(double value) {
  constexpr std::string_view units = "KMGTPE";
  if (value > 0 && value < 9.95) {
    return fmt::format("{:.1f}", value);
  }
  if (value < 999.5) {
    return fmt::format("{:.0f}", value);
  }
  std::size_t unit = 0;
  double scaled = value / 1000;
  while (scaled >= 999.5 && unit + 1 < units.size()) {
    scaled /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", scaled, scaled < 9.95 ? 1 : 0, units[unit]);
}

std::vector<std::string> top_table(const Observed& before, const Observed& now,
                                   std::size_t rows_max) {
  std::vector<DeviceRow> devices;
  std::vector<QpRow> qps;
  for (const ports::DeviceStatistics& device : now.devices) {
    add_rows(before, device, devices, qps);
  }
  sort_by_rate(devices);
  sort_by_rate(qps);

  std::size_t qp_count = 0;
  for (const DeviceRow& row : devices) {
    qp_count += row.device->objects.qps;
  }
  std::vector<std::string> lines{
      fmt::format("{} open devices, {} queue pairs", devices.size(), qp_count)};
  lines.push_back(fmt::format("{:>8} {:16} {:12} {:>6} {}", "PID", "PROGRAM", "DEVICE", "QPS",
                              rates_heading()));
  for (const DeviceRow& row : devices) {
    lines.push_back(line_of(row));
  }
  for (const DeviceRow& row : devices) {
    if (std::string drops = drops_of(row); !drops.empty()) {
      lines.push_back(std::move(drops));
    }
  }
  std::ranges::copy(now.failures, std::back_inserter(lines));
  if (!qps.empty()) {
    lines.emplace_back();
    lines.push_back(
        fmt::format("{:>8} {:8} {:6} {:29} {}", "PID", "QP", "STATE", "PEER", rates_heading()));
  }
  for (const QpRow& row : qps) {
    lines.push_back(line_of(row));
  }
  if (lines.size() > rows_max) {
    lines.resize(rows_max);
  }
  return lines;
}

}  // namespace verbena::cli
