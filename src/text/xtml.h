// XTML, the tag language of Kimi K3's prompts and answers: <|open|>name key="value"<|sep|> ... <|close|>name<|sep|>.
//
// The vocabulary shared by the chat encoder, which writes it, and the chat parser, which reads it. Four special tokens
// make the structure; tag names and attributes between them are ordinary text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace perigee::xtml {

constexpr std::string_view kOpen = "<|open|>";
constexpr std::string_view kClose = "<|close|>";
constexpr std::string_view kSep = "<|sep|>";
constexpr std::string_view kEndOfMessage = "<|end_of_msg|>";

constexpr std::string_view kMediaBegin = "<|media_begin|>";
constexpr std::string_view kMediaContent = "<|media_content|>";
constexpr std::string_view kMediaPad = "<|media_pad|>";
constexpr std::string_view kMediaEnd = "<|media_end|>";

/// The markers' ids in one tokenizer; they are looked up by name, never assumed.
struct MarkerIds {
  int32_t open = 0;
  int32_t close = 0;
  int32_t sep = 0;
  int32_t end_of_message = 0;
};

/// An error names the missing marker.
Result<MarkerIds> find_markers(const Tokenizer& tokenizer);

/// An attribute value as written between the quotes: & and " become entities, nothing else.
std::string escape_attribute(std::string_view value);
/// The reverse: &quot; first, then &amp;.
std::string unescape_attribute(std::string_view value);

/// Does the text hold nothing but white space, in Python's sense (str.strip() leaves nothing)?
bool is_blank(std::string_view text);

/// A copy with every `from` (not empty) replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace perigee::xtml
