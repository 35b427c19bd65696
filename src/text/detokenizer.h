// Turns a stream of token ids into a stream of valid UTF-8, holding back characters that are not complete yet.
//
// One per generated sequence, owned by whoever streams it (api/, apps/), used by one thread at a time. It refers to a
// Tokenizer, which must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perigee {

class Tokenizer;

/// At most three bytes are held back: a valid but incomplete start of a character. Whatever can no longer become valid
/// is replaced by U+FFFD, one per maximal subpart (the WHATWG rule), so that the joined output equals
/// Tokenizer::decode().
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer);

  /// The text that became complete with this token; a special token contributes its name.
  std::string push(int32_t id);

  /// The same for bytes that do not come from one token.
  std::string push_bytes(std::string_view bytes);

  /// Ends the stream: an incomplete rest comes out as one U+FFFD. The detokenizer may be used again afterwards.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  std::string held_;
};

}  // namespace perigee
