// The streaming half of decoding: joins what was held with what came and lets out all that can no longer change.
//
// Called once per generated token by the streaming side of a request; the work per call is that of the token's bytes.
#include "text/detokenizer.h"

#include <utility>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace perigee {

Detokenizer::Detokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

std::string Detokenizer::push(int32_t id) {
  return push_bytes(tokenizer_->token_bytes(id));
}

std::string Detokenizer::push_bytes(std::string_view bytes) {
  size_t held = 0;
  if (held_.empty()) {
    std::string out = repair_utf8_prefix(bytes, held);
    held_ = bytes.substr(bytes.size() - held);
    return out;
  }
  held_.append(bytes);
  std::string out = repair_utf8_prefix(held_, held);
  held_.erase(0, held_.size() - held);
  return out;
}

std::string Detokenizer::flush() {
  return repair_utf8(std::exchange(held_, {}));
}

}  // namespace perigee
