// MPA start frames: the request and the reply with which a connection begins. Read first: RFC 5044,
// 7.1; for the parameters of revision 2 RFC 6581, 4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace verbena::iwarp {

enum class StartKind : std::uint8_t { request, reply };

/// With what the initiator may show that it is ready to receive, before it has data to send (RFC
/// 6581, 4: "ready to receive", RTR).
enum class RtrType : std::uint8_t { zero_length_fpdu, write, read };
inline constexpr std::size_t rtr_type_count = 3;
[[nodiscard]] std::string_view name_of(RtrType type) noexcept;

/// A set of them.
class RtrTypes {
 public:
  constexpr RtrTypes() = default;
  // Implicit, so that a set can be written as {RtrType::write}.
  constexpr RtrTypes(std::initializer_list<RtrType> types) {
    for (const RtrType type : types) {
      set(type, true);
    }
  }
  constexpr void set(RtrType type, bool value) {
    bits_ = static_cast<std::uint8_t>(value ? bits_ | bit(type) : bits_ & ~bit(type));
  }
  [[nodiscard]] constexpr bool has(RtrType type) const { return (bits_ & bit(type)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr RtrTypes operator&(RtrTypes a, RtrTypes b) {
    RtrTypes both;
    both.bits_ = a.bits_ & b.bits_;
    return both;
  }
  friend constexpr bool operator==(RtrTypes, RtrTypes) = default;

 private:
  static constexpr std::uint8_t bit(RtrType type) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(type));
  }
  std::uint8_t bits_ = 0;
};

/// How many READs (and atomics) a side takes (IRD) and wants to have in flight (ORD).
struct ReadDepths {
  std::uint16_t ird = 0;
  std::uint16_t ord = 0;
  friend constexpr bool operator==(const ReadDepths&, const ReadDepths&) = default;
};
/// The largest depth that can be told; the value above it means "not negotiated here".
inline constexpr std::uint16_t read_depth_max = 0x3FFE;
inline constexpr std::uint16_t read_depth_open = 0x3FFF;

/// What revision 2 puts in front of the private data (RFC 6581, 4).
struct EnhancedParameters {
  ReadDepths depths{};
  bool peer_to_peer = false;
  RtrTypes rtr{};
  friend constexpr bool operator==(const EnhancedParameters&, const EnhancedParameters&) = default;
};

inline constexpr std::size_t start_frame_header_bytes = 20;
inline constexpr std::size_t enhanced_parameters_bytes = 4;
/// IRD and ORD in front of the private data of revision 1, 32 bits each: what peers do who need to
/// tell them without enhanced parameters ([MS-SMBD] 6.1). Nothing in a frame says that it has them.
inline constexpr std::size_t legacy_depths_bytes = 8;
/// Private data of a frame, enhanced parameters included (RFC 5044, 7.1).
inline constexpr std::size_t private_data_bytes_max = 512;
inline constexpr std::size_t start_frame_bytes_max =
    start_frame_header_bytes + private_data_bytes_max;

struct StartFrame {
  StartKind kind = StartKind::request;
  std::uint8_t revision = 2;
  /// The sender wants markers in what it receives.
  bool markers = false;
  bool crc = false;
  /// Replies only: the connection is refused.
  bool reject = false;
  std::optional<EnhancedParameters> enhanced = std::nullopt;
  /// Revision 1 only. A reader leaves them in the private data; see take_legacy_depths().
  std::optional<ReadDepths> legacy_depths = std::nullopt;
  /// The consumer's, without what MPA itself has in front of it.
  ByteView private_data{};
};

/// The size of the frame, or nothing if its private data is too long.
[[nodiscard]] std::optional<std::size_t> start_frame_bytes(const StartFrame& frame);
/// Writes the frame to the start of `to`, which has room for start_frame_bytes().
void emit_start_frame(MutableBytes to, const StartFrame& frame);

/// For whoever knows that the peer tells them: takes the depths of a frame of revision 1 out of its
/// private data, if it is long enough. What a depth can't be is cut to read_depth_max.
void take_legacy_depths(StartFrame& frame);

struct StartError {
  enum class Kind : std::uint8_t {
    /// Not the key of the frame that is expected. got: the byte where it differs.
    key,
    /// Revision 0. expected/got: revisions.
    revision,
    /// More private data than a frame may have. expected/got: bytes.
    private_data_length,
    /// Flagged as enhanced but too short for it. expected/got: bytes.
    enhanced_length,
  };
  Kind kind{};
  std::size_t expected = 0;
  std::size_t got = 0;
};
[[nodiscard]] std::string describe(const StartError& error);

/// Takes a start frame out of a stream that comes in any pieces. What is wrong is told as soon as
/// the byte is there: a peer that speaks something else isn't waited for.
class StartFrameReader {
 public:
  explicit StartFrameReader(StartKind expected) : expected_(expected) {}

  /// Removes from `stream` what belongs to the frame. The frame when it is complete, nothing as
  /// long as bytes are missing. Its private data is valid as long as the reader.
  [[nodiscard]] Result<std::optional<StartFrame>, StartError> take(ByteView& stream);

  /// The bytes of the frame so far.
  [[nodiscard]] ByteView bytes() const { return ByteView(bytes_).first(size_); }

 private:
  [[nodiscard]] std::size_t wanted_bytes() const;
  [[nodiscard]] std::optional<StartError> check() const;
  [[nodiscard]] StartFrame frame() const;

  StartKind expected_;
  std::size_t size_ = 0;
  std::array<std::byte, start_frame_bytes_max> bytes_{};
};

}  // namespace verbena::iwarp
