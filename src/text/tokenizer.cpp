// The tokenizer's tables and its two directions, encode and decode. See tokenizer.h.
//
// Loaded by apps/ at start-up; everything below is const afterwards. The splitter cuts, the BytePairTable merges, and
// this file knows the special slots.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "text/byte_pair.h"
#include "text/splitter.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::string_view kModelFile = "tiktoken.model";
constexpr std::string_view kConfigFile = "tokenizer_config.json";
constexpr size_t kSlots = Tokenizer::kSpecialSlots;
/// Bounds the work per position of the search for names in a text.
constexpr size_t kMaxNameBytes = 256;

/// One of the ids behind the ranks.
struct Slot {
  std::string name;
  bool skipped = true;
  bool named = false;
};

using Slots = std::array<Slot, kSlots>;

Error config_error(std::string_view what) {
  return {fmt::format("{} {}.", kConfigFile, what)};
}

/// Applies one member of added_tokens_decoder to its slot.
Result<void> read_added_token(std::string_view key, const json::value& value, int32_t base, Slots& slots) {
  int64_t id = -1;
  const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (status != std::errc() || end != key.data() + key.size()) {
    return config_error(fmt::format("has the key \"{}\" in added_tokens_decoder, which is not an id", key));
  }
  // Compared before the subtraction below: an id from a file may be any 64-bit number.
  if (id < base || id >= base + static_cast<int64_t>(kSlots)) {
    return config_error(
        fmt::format("names the id {}, which is not one of the {} special ids from {} on", id, kSlots, base));
  }
  const json::object* token = value.if_object();
  const json::value* content = token ? token->if_contains("content") : nullptr;
  if (!content || !content->is_string()) return config_error(fmt::format("has no string as content of the id {}", id));
  const json::string& name = content->get_string();
  if (name.empty() || name.size() > kMaxNameBytes) {
    return config_error(
        fmt::format("names the id {} with {} bytes; 1 to {} are allowed", id, name.size(), kMaxNameBytes));
  }
  const json::value* special = token->if_contains("special");
  if (special && !special->is_bool()) return config_error(fmt::format("has no boolean as special of the id {}", id));
  Slot& slot = slots[static_cast<size_t>(id - base)];
  if (slot.named) return config_error(fmt::format("names the id {} twice", id));
  slot = {std::string(name), special && special->get_bool(), true};
  return {};
}

/// Names of all slots: the default ones, then those of the configuration.
Result<Slots> read_slots(const json::object& config, int32_t base) {
  Slots slots;
  for (size_t i = 0; i < kSlots; ++i)
    slots[i].name = fmt::format("<|reserved_token_{}|>", static_cast<size_t>(base) + i);
  const json::value* added = config.if_contains("added_tokens_decoder");
  if (!added) return slots;
  if (!added->is_object()) return config_error("has an added_tokens_decoder that is not an object");
  for (const auto& member : added->get_object()) {
    if (Result<void> done = read_added_token(member.key(), member.value(), base, slots); !done) return done.error();
  }
  return slots;
}

/// Finds special names in a text: the leftmost, and the longest of those that begin at the same place.
class NameIndex {
 public:
  explicit NameIndex(const Slots& slots) {
    for (size_t i = 0; i < kSlots; ++i) entries_[i] = {slots[i].name, static_cast<int32_t>(i)};
    std::sort(entries_.begin(), entries_.end());
    for (const auto& entry : entries_) starts_[static_cast<unsigned char>(entry.first[0])] = true;
  }

  /// A name that two slots have, if there is one.
  std::optional<std::string> duplicate() const {
    const auto same = [](const Entry& a, const Entry& b) { return a.first == b.first; };
    const auto found = std::adjacent_find(entries_.begin(), entries_.end(), same);
    return found == entries_.end() ? std::nullopt : std::optional(found->first);
  }

  /// The slot with this name, or -1.
  int32_t find(std::string_view name) const {
    const auto less = [](const Entry& entry, std::string_view key) { return entry.first < key; };
    const auto found = std::lower_bound(entries_.begin(), entries_.end(), name, less);
    return found != entries_.end() && found->first == name ? found->second : -1;
  }

  struct Match {
    size_t start;
    size_t length;
    int32_t slot;
  };

  /// The first name at or behind `position`, or nothing.
  std::optional<Match> search(std::string_view text, size_t position) const {
    for (; position < text.size(); ++position) {
      if (!starts_[static_cast<unsigned char>(text[position])]) continue;
      const Match match = match_at(text, position);
      if (match.slot >= 0) return match;
    }
    return std::nullopt;
  }

 private:
  using Entry = std::pair<std::string, int32_t>;

  /// Narrows the sorted names byte by byte to those that the text continues with.
  Match match_at(std::string_view text, size_t position) const {
    Match best{position, 0, -1};
    auto low = entries_.begin();
    auto high = entries_.end();
    for (size_t depth = 0; position + depth < text.size(); ++depth) {
      const auto byte = static_cast<unsigned char>(text[position + depth]);
      // A name that ends here has no byte, and sorts before all that go on.
      const auto at = [depth](const Entry& entry) {
        return depth < entry.first.size() ? static_cast<int>(static_cast<unsigned char>(entry.first[depth])) : -1;
      };
      low = std::partition_point(low, high, [&](const Entry& entry) { return at(entry) < byte; });
      high = std::partition_point(low, high, [&](const Entry& entry) { return at(entry) == byte; });
      if (low == high) break;
      if (low->first.size() == depth + 1) best = {position, depth + 1, low->second};
    }
    return best;
  }

  std::array<Entry, kSlots> entries_;
  std::array<bool, 256> starts_{};
};

/// The id that bos_token and its like name: a string, or an object with the string in `content`; absent or null is
/// nothing.
Result<std::optional<int32_t>> read_role(const json::object& config, std::string_view key, const NameIndex& names,
                                         int32_t base) {
  const json::value* value = config.if_contains(key);
  if (!value || value->is_null()) return std::optional<int32_t>();
  if (const json::object* object = value->if_object()) value = object->if_contains("content");
  if (!value || !value->is_string())
    return config_error(fmt::format("has a {} that is neither a string nor an object with content", key));
  const std::string_view name = value->get_string();
  const int32_t slot = names.find(name);
  if (slot < 0)
    return config_error(fmt::format("has the {} \"{}\", which is not the name of a special token", key, name));
  return std::optional<int32_t>(base + slot);
}

}  // namespace

struct Tokenizer::Tables {
  BytePairTable ranks;
  Slots slots;
  NameIndex names;
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> pad;
  std::optional<int32_t> unk;

  void encode_ordinary(std::string_view text, std::vector<int32_t>& out) const {
    for (size_t start = 0; start < text.size();) {
      const size_t end = next_piece(text, start);
      ranks.encode(text.substr(start, end - start), out);
      start = end;
    }
  }

  void encode_with_names(std::string_view text, std::vector<int32_t>& out) const {
    size_t start = 0;
    while (const auto match = names.search(text, start)) {
      encode_ordinary(text.substr(start, match->start - start), out);
      out.push_back(ranks.size() + match->slot);
      start = match->start + match->length;
    }
    encode_ordinary(text.substr(start), out);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::string& folder) {
  constexpr size_t kLimit = size_t{256} << 20;
  const Result<std::string> model = read_file(fmt::format("{}/{}", folder, kModelFile), kLimit);
  if (!model) return model.error();
  const Result<std::string> config = read_file(fmt::format("{}/{}", folder, kConfigFile), kLimit);
  if (!config) return config.error();
  Result<Tokenizer> tokenizer = from_text(*model, *config);
  if (!tokenizer) return Error{fmt::format("In {}: {}", folder, tokenizer.error().message)};
  return tokenizer;
}

Result<Tokenizer> Tokenizer::from_text(std::string_view tiktoken_model, std::string_view tokenizer_config_json) {
  Result<BytePairTable> ranks = BytePairTable::parse(tiktoken_model, kModelFile);
  if (!ranks) return ranks.error();
  const int32_t base = ranks->size();
  const Result<json::value> parsed = parse_json(tokenizer_config_json);
  if (!parsed) return config_error(fmt::format("is not valid JSON: {}", parsed.error().message));
  const json::object* config = parsed->if_object();
  if (!config) return config_error("is not a JSON object");
  Result<Slots> slots = read_slots(*config, base);
  if (!slots) return slots.error();
  NameIndex names(*slots);
  if (const auto name = names.duplicate()) return config_error(fmt::format("gives the name \"{}\" to two ids", *name));

  std::array<std::optional<int32_t>, 4> roles;
  constexpr std::array<std::string_view, 4> kKeys = {"bos_token", "eos_token", "pad_token", "unk_token"};
  for (size_t i = 0; i < roles.size(); ++i) {
    const Result<std::optional<int32_t>> role = read_role(*config, kKeys[i], names, base);
    if (!role) return role.error();
    roles[i] = *role;
  }
  return Tokenizer(std::make_unique<const Tables>(
      Tables{std::move(*ranks), std::move(*slots), std::move(names), roles[0], roles[1], roles[2], roles[3]}));
}

int32_t Tokenizer::vocab_size() const {
  return base_size() + kSpecialSlots;
}
int32_t Tokenizer::base_size() const {
  return tables_->ranks.size();
}

std::vector<int32_t> Tokenizer::encode(std::string_view utf8, Specials specials) const {
  std::string repaired;
  if (!is_valid_utf8(utf8)) {
    repaired = repair_utf8(utf8);
    utf8 = repaired;
  }
  std::vector<int32_t> out;
  out.reserve(utf8.size() / 4 + 1);
  size_t start = 0;
  for (const size_t end : long_input_cuts(utf8)) {
    const std::string_view part = utf8.substr(start, end - start);
    if (specials == Specials::as_ids) {
      tables_->encode_with_names(part, out);
    } else {
      tables_->encode_ordinary(part, out);
    }
    start = end;
  }
  return out;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  PERIGEE_CHECK(id >= 0 && id < vocab_size(), "token id {} of {}", id, vocab_size());
  if (id < base_size()) return tables_->ranks.bytes(id);
  return tables_->slots[static_cast<size_t>(id - base_size())].name;
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= base_size() && id < vocab_size();
}

bool Tokenizer::is_skipped(int32_t id) const {
  return is_special(id) && tables_->slots[static_cast<size_t>(id - base_size())].skipped;
}

std::optional<int32_t> Tokenizer::special_id(std::string_view name) const {
  const int32_t slot = tables_->names.find(name);
  if (slot < 0) return std::nullopt;
  return base_size() + slot;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!(skip_special_tokens && is_skipped(id))) bytes.append(token_bytes(id));
  }
  return is_valid_utf8(bytes) ? bytes : repair_utf8(bytes);
}

std::optional<int32_t> Tokenizer::bos_id() const {
  return tables_->bos;
}
std::optional<int32_t> Tokenizer::eos_id() const {
  return tables_->eos;
}
std::optional<int32_t> Tokenizer::pad_id() const {
  return tables_->pad;
}
std::optional<int32_t> Tokenizer::unk_id() const {
  return tables_->unk;
}

}  // namespace perigee
