// The tokenizer of the Kimi K3 family: a byte-level BPE read from `tiktoken.model`, with 256 special slots behind it.
//
// Loaded once at start-up by apps/, then shared const by every thread (api/, engine/, chat encoder, chat parser, token
// masks). A Tokenizer owns all of its tables; the string_views it hands out live as long as it does and survive moves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace perigee {

/// What encode() does with the names of special tokens in the text: as_text spells them with ordinary tokens (all text
/// that comes from a user), as_ids turns each into its one id (raw prompts).
enum class Specials { as_text, as_ids };

/// Immutable after load; every const call may be made from any number of threads at once.
class Tokenizer {
 public:
  /// How many ids behind the ranks are special, named or not.
  static constexpr int32_t kSpecialSlots = 256;

  /// Reads `tiktoken.model` and `tokenizer_config.json` from a checkpoint folder. A missing or broken file is an error.
  static Result<Tokenizer> load(const std::string& folder);

  /// The same from memory. `tiktoken_model` has lines "base64(bytes) SPACE rank"; ranks are 0..n-1, each once, and all
  /// 256 single bytes must be present. Names and flags of the slots come from `added_tokens_decoder`.
  static Result<Tokenizer> from_text(std::string_view tiktoken_model, std::string_view tokenizer_config_json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Number of ids: ranks + kSpecialSlots. Valid ids are 0..vocab_size()-1.
  int32_t vocab_size() const;

  /// Number of ranks, which is also the first special id.
  int32_t base_size() const;

  /// The ids of a text. Invalid UTF-8 is first replaced by U+FFFD, one per maximal subpart. Nothing is added in front
  /// or behind. Very long inputs are cut as the family's own tokenizer cuts them (see long_input_cuts), which is part
  /// of the definition of the ids. Time is near-linear in the input whatever its content.
  std::vector<int32_t> encode(std::string_view utf8, Specials specials) const;

  /// The raw bytes of a token, perhaps a part of a character; for a special id its name.
  std::string_view token_bytes(int32_t id) const;

  /// Is the id one of the kSpecialSlots ids behind the ranks?
  bool is_special(int32_t id) const;

  /// Would skip_special_tokens remove the id? True for slots whose `special` flag is true and for unnamed slots; false
  /// for base tokens and for named slots with the flag false (the XTML markers).
  bool is_skipped(int32_t id) const;

  /// The id of a special name, with `<|reserved_token_{id}|>` as the name of an unnamed slot.
  std::optional<int32_t> special_id(std::string_view name) const;

  /// The joined bytes of the tokens, nothing between them; invalid UTF-8 becomes U+FFFD, one per maximal subpart.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = false) const;

  /// Ids named by bos_token, eos_token, pad_token and unk_token of tokenizer_config.json, when present.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  std::optional<int32_t> unk_id() const;

 private:
  struct Tables;
  explicit Tokenizer(std::unique_ptr<const Tables> tables);

  std::unique_ptr<const Tables> tables_;
};

}  // namespace perigee
