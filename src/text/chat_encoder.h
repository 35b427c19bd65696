// Turns a conversation into the prompt of a Kimi K3 model ("XTML": <|open|>message role="user"<|sep|>...).
//
// Called by the API layer, once per request, on its worker threads. A ChatEncoder is immutable and may be shared by all
// threads; it keeps a pointer to the Tokenizer, which must outlive it. K3 checkpoints carry no template file: the
// format is written here, and only here. Segment borders decide the token ids, so they are part of the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace perigee {

/// Where an image of the request went: ChatInput::messages[message].content[part]. Tool results may be reordered, so
/// the images of a prompt follow the rendered order, not the request's.
struct ImageReference {
  int message = 0;
  int part = 0;
  ImagePart image;
};

/// A piece of the prompt that is tokenised on its own. Text segments never become special tokens, whatever they spell.
/// A control segment is exactly one marker, or a whole image prompt with a single pad.
struct ChatSegment {
  std::string text;
  bool control = false;
  std::optional<ImageReference> image;
};

/// The pads of one image in EncodedChat::ids: [begin, begin + image.tokens).
struct ImageSpan {
  int64_t begin = 0;
  ImageReference source;
};

/// A prompt ready for the engine.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<int64_t> message_ends;  ///< offsets into ids just after each message, rising: good cache checkpoints
  std::vector<ImageSpan> images;      ///< in prompt order
  bool starts_in_think = false;       ///< generation begins inside the think channel (else the response channel)
  int earlier_tool_calls = 0;         ///< calls in the conversation's assistant messages; numbers the next call's id
  bool tools_callable = false;        ///< tools exist and tool_choice is not none: the answer may hold tool calls
};

struct ChatEncoderOptions {
  /// The thinking efforts the checkpoint accepts, as named in a request.
  std::vector<std::string> efforts = {"low", "high", "max"};
};

class ChatEncoder {
 public:
  /// Fails when the tokenizer lacks one of the four markers (<|open|>, <|close|>, <|sep|>, <|end_of_msg|>). Image
  /// markers are required only by conversations with images.
  static Result<ChatEncoder> create(const Tokenizer& tokenizer, ChatEncoderOptions options = {});

  /// The prompt as segments. Errors are the client's fault (HTTP 400).
  Result<std::vector<ChatSegment>> render(const ChatInput& input) const;

  /// render() and tokenise, with each image's pad repeated. Errors as render().
  Result<EncodedChat> encode(const ChatInput& input) const;

  const std::vector<std::string>& efforts() const { return options_.efforts; }

 private:
  ChatEncoder(const Tokenizer& tokenizer, ChatEncoderOptions options)
      : tokenizer_(&tokenizer), options_(std::move(options)) {}

  Result<void> append(const ChatSegment& segment, EncodedChat& chat) const;

  const Tokenizer* tokenizer_;
  ChatEncoderOptions options_;
};

/// The segments' texts joined: what the prompt looks like (a pad per image). For logs, tests and inspection.
std::string prompt_text(const std::vector<ChatSegment>& segments);

/// Whether generation after render(input) starts inside the think channel.
bool starts_in_think(const ChatInput& input);

}  // namespace perigee
