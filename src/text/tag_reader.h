// Assembles XTML tags from a stream of markers and text, for the chat parser.
//
// Owned by one ChatParser, used by its thread. A tag is <|open|> or <|close|>, a header of ordinary text, <|sep|>. Only
// the seven tags of the format exist; markers that make no such tag come out as the text they spell, as soon as that is
// certain.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

enum class TagName { message, think, response, tools, call, argument, json };

enum class Marker { open, close, sep, end_of_message };

struct XtmlEvent {
  enum class Kind { text, open, close, end_of_message };
  Kind kind = Kind::text;
  TagName tag = TagName::message;  ///< for open and close
  std::string text;                ///< the text, or how the tag or marker is spelled
};

/// The value of an attribute in a spelled opening tag, unescaped; the last one of that key. Attributes are
/// key="value" with a value free of quotes; anything else in the header is passed over.
std::optional<std::string> tag_attribute(std::string_view tag, std::string_view key);

class TagReader {
 public:
  /// The next piece of ordinary text, whole characters of UTF-8.
  void text(std::string_view text, std::vector<XtmlEvent>& out);
  /// A marker. Call finish() before the end of a message.
  void marker(Marker marker, std::vector<XtmlEvent>& out);
  /// The end of the message or stream: a tag that was begun is dropped, or with `keep` comes out as text.
  void finish(bool keep, std::vector<XtmlEvent>& out);

 private:
  bool viable() const;
  void release(std::vector<XtmlEvent>& out);

  std::string pending_;  // <|open|> or <|close|> and the header so far; empty outside of tags
  bool opening_ = false;
};

}  // namespace perigee
