#include "proto/ib_bth/opcode.h"

#include <algorithm>

namespace verbena::ib {
namespace {

/// Text of limited length that can be put together in constexpr.
class FixedText {
 public:
  constexpr void append(std::string_view text) {
    for (const char c : text) {
      chars_.at(size_++) = c;
    }
  }
  [[nodiscard]] constexpr std::string_view view() const { return {chars_.data(), size_}; }

 private:
  std::array<char, 40> chars_{};
  std::size_t size_ = 0;
};

struct OpcodeText {
  Opcode opcode{};
  FixedText name;
  FixedText identifier;
};

constexpr OpcodeText make_text(const detail::ServiceRow& service,
                               const detail::OperationRow& operation) {
  OpcodeText text;
  text.opcode = detail::make_info(service, operation).opcode;
  text.name.append(service.name);
  text.identifier.append(service.identifier);
  if (!operation.name.empty()) {
    text.name.append(" ");
    text.name.append(operation.name);
    text.identifier.append("_");
    text.identifier.append(operation.identifier);
  }
  return text;
}

constexpr auto opcode_texts = [] {
  std::array<OpcodeText, opcode_count> texts{};
  std::size_t count = 0;
  detail::for_each_opcode([&](const auto& service, const auto& operation) {
    texts.at(count++) = make_text(service, operation);
  });
  std::ranges::sort(texts, {}, &OpcodeText::opcode);
  return texts;
}();

const OpcodeText* find_text(Opcode opcode) {
  const auto* found = std::ranges::lower_bound(opcode_texts, opcode, {}, &OpcodeText::opcode);
  return found != opcode_texts.end() && found->opcode == opcode ? found : nullptr;
}

}  // namespace

std::string_view opcode_name(Opcode opcode) {
  const OpcodeText* text = find_text(opcode);
  return text != nullptr ? text->name.view() : "reserved";
}

std::string_view opcode_identifier(Opcode opcode) {
  const OpcodeText* text = find_text(opcode);
  return text != nullptr ? text->identifier.view() : "reserved";
}

std::optional<Opcode> opcode_from_identifier(std::string_view identifier) {
  for (const OpcodeText& text : opcode_texts) {
    if (text.identifier.view() == identifier) {
      return text.opcode;
    }
  }
  return std::nullopt;
}

}  // namespace verbena::ib
