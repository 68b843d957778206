// Two Nics and one reliable connection between them, with nothing in between but an array of
// frames: what a message costs in the core alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nic_model/nic.h"

namespace verbena::bench {

class TwoNics {
 public:
  TwoNics();
  ~TwoNics();

  /// One message of `bytes`, from the post to both ends' completions.
  void exchange(WrOpcode opcode, std::uint32_t bytes);

 private:
  class Wire;
  struct End;

  void carry(End& from, End& to);

  std::unique_ptr<End> a_;
  std::unique_ptr<End> b_;
  std::unique_ptr<Wire> wire_;
};

}  // namespace verbena::bench
