// Parsing of the merge file, the hash table from byte strings to ranks, and the two merge loops. See byte_pair.h.
//
// Short pieces, which are nearly all of them, use flat arrays on the stack and a linear search for the lowest rank;
// long ones a linked list and a heap, so that no input is slow.
#include "text/byte_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/hash.h"

namespace perigee {
namespace {

constexpr size_t kShortPiece = 64;
constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

/// The value of a base64 digit, or -1.
int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// Appends the bytes of canonical, padded base64 (RFC 4648, section 4); false when it is anything else.
bool append_base64(std::string_view text, std::string& out) {
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int digit = base64_digit(c);
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count));
    bits &= (1U << count) - 1;
  }
  return bits == 0;
}

std::optional<int32_t> parse_rank(std::string_view digits) {
  int32_t rank = -1;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (status != std::errc() || end != digits.data() + digits.size() || rank < 0) return std::nullopt;
  return rank;
}

/// One line of the merge file; its bytes lie in a buffer shared by all lines.
struct Entry {
  int32_t rank;
  size_t start;
  size_t length;
};

/// Reads all lines in file order. `line` counts from 1 in errors.
Result<std::vector<Entry>> parse_lines(std::string_view model, std::string_view source, std::string& bytes) {
  std::vector<Entry> entries;
  size_t line_number = 0;
  while (!model.empty()) {
    ++line_number;
    const size_t end = std::min(model.find('\n'), model.size());
    const std::string_view line = model.substr(0, end);
    model.remove_prefix(std::min(end + 1, model.size()));
    if (line.empty()) continue;
    const auto fault = [&](std::string_view what) {
      return Error{fmt::format("Line {} of {} {}.", line_number, source, what)};
    };
    if (line.size() > BytePairTable::kMaxTokenBytes * 4 / 3 + 16) return fault("is too long");
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return fault("has no space between token and rank");
    const size_t start = bytes.size();
    if (!append_base64(line.substr(0, space), bytes)) return fault("does not begin with a token in base64");
    if (bytes.size() - start > BytePairTable::kMaxTokenBytes) return fault("has too long a token");
    const std::optional<int32_t> rank = parse_rank(line.substr(space + 1));
    if (!rank) return fault("does not end with a rank");
    if (entries.size() == static_cast<size_t>(BytePairTable::kMaxRanks)) return fault("is one more than may be");
    entries.push_back({*rank, start, bytes.size() - start});
  }
  return entries;
}

/// Orders the entries by rank; an error unless the ranks are 0..n-1.
Result<void> sort_by_rank(std::vector<Entry>& entries, std::string_view source) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto expected = static_cast<int32_t>(i);
    if (entries[i].rank < expected) return Error{fmt::format("Rank {} occurs twice in {}.", entries[i].rank, source)};
    if (entries[i].rank > expected) return Error{fmt::format("Rank {} is missing in {}.", expected, source)};
  }
  return {};
}

}  // namespace

Result<BytePairTable> BytePairTable::parse(std::string_view model, std::string_view source) {
  std::string bytes;
  Result<std::vector<Entry>> entries = parse_lines(model, source, bytes);
  if (!entries) return entries.error();
  if (Result<void> order = sort_by_rank(*entries, source); !order) return order.error();
  // Offsets are 32 bits wide.
  if (bytes.size() > std::numeric_limits<uint32_t>::max())
    return Error{fmt::format("The tokens of {} are too long in sum.", source)};

  BytePairTable table;
  table.blob_.reserve(bytes.size());
  table.starts_.reserve(entries->size() + 1);
  table.slots_.resize(std::bit_ceil(std::max<size_t>(2 * entries->size(), 2)));
  table.byte_ranks_.fill(-1);
  table.starts_.push_back(0);
  for (const Entry& entry : *entries) {
    table.blob_.append(bytes, entry.start, entry.length);
    table.starts_.push_back(static_cast<uint32_t>(table.blob_.size()));
    table.longest_ = std::max(table.longest_, entry.length);
    if (!table.insert(entry.rank)) {
      return Error{fmt::format("The token of rank {} in {} also has a lower rank.", entry.rank, source)};
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (table.byte_ranks_[byte] < 0)
      return Error{fmt::format("The single byte {:#04x} has no rank in {}.", byte, source)};
  }
  return table;
}

bool BytePairTable::insert(int32_t rank) {
  const std::string_view token = bytes(rank);
  if (find(token) >= 0) return false;
  if (token.size() == 1) byte_ranks_[static_cast<unsigned char>(token[0])] = rank;
  const uint64_t hash = hash64(token);
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].rank >= 0) i = (i + 1) & mask;
  slots_[i] = {static_cast<uint32_t>(hash >> 32), rank};
  return true;
}

int32_t BytePairTable::find(std::string_view token) const {
  if (token.size() == 1) return byte_ranks_[static_cast<unsigned char>(token[0])];
  if (token.size() > longest_) return -1;
  const uint64_t hash = hash64(token);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask; slots_[i].rank >= 0; i = (i + 1) & mask) {
    if (slots_[i].tag == tag && bytes(slots_[i].rank) == token) return slots_[i].rank;
  }
  return -1;
}

void BytePairTable::encode(std::string_view piece, std::vector<int32_t>& out) const {
  if (const int32_t rank = find(piece); rank >= 0) {
    out.push_back(rank);
  } else if (piece.size() <= kShortPiece) {
    merge_short(piece, out);
  } else {
    merge_long(piece, out);
  }
}

void BytePairTable::merge_short(std::string_view piece, std::vector<int32_t>& out) const {
  // Part i is piece[starts[i], starts[i + 1]) with id ids[i]; joins[i] is the rank of parts i and i + 1 together.
  std::array<uint8_t, kShortPiece + 2> starts;
  std::array<int32_t, kShortPiece + 1> ids;
  std::array<int32_t, kShortPiece + 1> joins;
  size_t parts = piece.size();
  const auto join = [&](size_t i) {
    if (i + 1 >= parts) return kNoRank;
    const int32_t rank = find(piece.substr(starts[i], static_cast<size_t>(starts[i + 2]) - starts[i]));
    return rank < 0 ? kNoRank : rank;
  };
  for (size_t i = 0; i < parts; ++i) {
    starts[i] = static_cast<uint8_t>(i);
    ids[i] = byte_ranks_[static_cast<unsigned char>(piece[i])];
  }
  starts[parts] = static_cast<uint8_t>(parts);
  for (size_t i = 0; i < parts; ++i) joins[i] = join(i);

  while (parts > 1) {
    const auto lowest = std::min_element(joins.begin(), joins.begin() + static_cast<ptrdiff_t>(parts) - 1);
    if (*lowest == kNoRank) break;
    const auto i = static_cast<size_t>(lowest - joins.begin());
    ids[i] = *lowest;
    std::memmove(&starts[i + 1], &starts[i + 2], (parts - i - 1) * sizeof starts[0]);
    std::memmove(&ids[i + 1], &ids[i + 2], (parts - i - 2) * sizeof ids[0]);
    std::memmove(&joins[i + 1], &joins[i + 2], (parts - i - 2) * sizeof joins[0]);
    --parts;
    joins[i] = join(i);
    if (i > 0) joins[i - 1] = join(i - 1);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(parts));
}

void BytePairTable::merge_long(std::string_view piece, std::vector<int32_t>& out) const {
  PERIGEE_CHECK(piece.size() < std::numeric_limits<uint32_t>::max(), "a piece of {} bytes", piece.size());
  // A part is named by its first byte; next[i] begins the part behind it, and joins[i] is the rank of both together.
  const auto size = static_cast<uint32_t>(piece.size());
  std::vector<uint32_t> next(size + 1, size);
  std::vector<uint32_t> previous(size + 1, 0);
  std::vector<int32_t> ids(size);
  std::vector<int32_t> joins(size, kNoRank);
  // Smallest first: by rank, then by position. Entries that no longer agree with joins are skipped when they surface.
  std::vector<uint64_t> heap;
  heap.reserve(size);
  const auto join = [&](uint32_t i) {
    joins[i] = kNoRank;
    if (next[i] == size) return false;
    const int32_t rank = find(piece.substr(i, next[next[i]] - i));
    if (rank >= 0) joins[i] = rank;
    return rank >= 0;
  };
  const auto key = [&](uint32_t i) { return static_cast<uint64_t>(joins[i]) << 32 | i; };
  for (uint32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i + 1] = i;
    ids[i] = byte_ranks_[static_cast<unsigned char>(piece[i])];
  }
  for (uint32_t i = 0; i < size; ++i) {
    if (join(i)) heap.push_back(key(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto push = [&](uint32_t i) {
    if (!join(i)) return;
    heap.push_back(key(i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (joins[i] == kNoRank || key(i) != top) continue;
    const uint32_t absorbed = next[i];
    ids[i] = joins[i];
    joins[absorbed] = kNoRank;
    next[i] = next[absorbed];
    previous[next[i]] = i;
    push(i);
    if (i > 0) push(previous[i]);
  }
  for (uint32_t i = 0; i < size; i = next[i]) out.push_back(ids[i]);
}

}  // namespace perigee
