// The merge table of a byte-level BPE: the ranked byte strings of `tiktoken.model`, and the merging of one piece.
//
// Owned by the Tokenizer, which feeds it the splitter's pieces. Immutable after parse(), so any number of threads may
// encode at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace perigee {

class BytePairTable {
 public:
  /// Upper bound on the number of ranks.
  static constexpr int32_t kMaxRanks = 1 << 22;
  /// Upper bound on the bytes of one token.
  static constexpr size_t kMaxTokenBytes = 4096;

  /// Reads lines "base64(bytes) SPACE rank LF"; empty lines are skipped. An error when a line is malformed, a rank or a
  /// byte string occurs twice, the ranks are not 0..n-1, or one of the 256 single bytes is missing. `source` names it
  /// in errors.
  static Result<BytePairTable> parse(std::string_view model, std::string_view source);

  /// Number of ranks.
  int32_t size() const { return static_cast<int32_t>(starts_.size()) - 1; }

  /// The byte string of a rank in 0..size()-1.
  std::string_view bytes(int32_t rank) const {
    const auto i = static_cast<size_t>(rank);
    return std::string_view(blob_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }

  /// The rank of a byte string of at least one byte, or -1.
  int32_t find(std::string_view token) const;

  /// Appends the ids of one piece: its own rank if it has one, else single bytes merged, always the pair of lowest rank
  /// first (the leftmost of equals), until no pair has a rank. O(n log n) for a piece of n bytes.
  void encode(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t rank = -1;
  };

  BytePairTable() = default;
  bool insert(int32_t rank);
  void merge_short(std::string_view piece, std::vector<int32_t>& out) const;
  void merge_long(std::string_view piece, std::vector<int32_t>& out) const;

  std::string blob_;              // all byte strings in rank order
  std::vector<uint32_t> starts_;  // where each begins, and the end
  std::vector<Slot> slots_;       // open addressing, linear probing, at most half full
  std::array<int32_t, 256> byte_ranks_{};
  size_t longest_ = 1;
};

}  // namespace perigee
