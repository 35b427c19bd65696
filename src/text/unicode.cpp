// Expands the generated list of class changes into the flat table. See unicode.h.
//
// Called by the splitter and the tokenizer; the table lives until the process ends.
#include "text/unicode.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace perigee {
namespace {

std::vector<uint8_t> expand(std::span<const uint32_t> changes) {
  std::vector<uint8_t> table(kCodePoints);
  for (size_t i = 0; i < changes.size(); ++i) {
    const uint32_t first = changes[i] >> 8;
    const uint32_t end = i + 1 < changes.size() ? changes[i + 1] >> 8 : kCodePoints;
    std::fill(table.begin() + first, table.begin() + end, static_cast<uint8_t>(changes[i]));
  }
  return table;
}

}  // namespace

const uint8_t* char_class_table() {
  static const std::vector<uint8_t> table = expand(char_class_changes());
  return table.data();
}

}  // namespace perigee
