// Writes XTML as segments: the one place that knows which pieces of a tag are tokenised separately.
//
// Used by the chat encoder, one per prompt. Owns the segments until take(). Segment borders change token ids: an
// attribute is four text segments, a tag name one, every body piece one; markers are control segments.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_encoder.h"

namespace perigee {

class PromptWriter {
 public:
  using Attribute = std::pair<std::string_view, std::string_view>;

  /// <|open|>name key="value"...<|sep|>; values are escaped here, and an attribute with an empty key is left out.
  void open(std::string_view name, std::initializer_list<Attribute> attributes = {});
  /// <|close|>name<|sep|>
  void close(std::string_view name);
  /// Closes the message and ends it.
  void end_message();
  /// Text that comes from outside, as one segment; empty text makes none.
  void text(std::string text);
  /// An image prompt: a wrapper that names the picture's size around one pad.
  void image(const ImageReference& image);
  /// A whole system message of a given `type` with one body.
  void system_message(std::string_view type, std::string body);

  std::vector<ChatSegment> take() { return std::move(segments_); }

 private:
  void control(std::string_view marker);

  std::vector<ChatSegment> segments_;
};

}  // namespace perigee
