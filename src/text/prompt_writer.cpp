// Segments of tags and bodies; see prompt_writer.h.
//
// Called by the chat encoder for every piece of a prompt. The writer owns the segments; attribute values are escaped
// here and nowhere else, bodies never are.
#include "text/prompt_writer.h"

#include <fmt/format.h>

#include "text/xtml.h"

namespace perigee {

void PromptWriter::open(std::string_view name, std::initializer_list<Attribute> attributes) {
  control(xtml::kOpen);
  text(std::string(name));
  for (const auto& [key, value] : attributes) {
    if (key.empty()) continue;
    text(" " + std::string(key));
    text("=\"");
    text(xtml::escape_attribute(value));
    text("\"");
  }
  control(xtml::kSep);
}

void PromptWriter::close(std::string_view name) {
  control(xtml::kClose);
  text(std::string(name));
  control(xtml::kSep);
}

void PromptWriter::end_message() {
  close("message");
  control(xtml::kEndOfMessage);
}

void PromptWriter::text(std::string text) {
  if (!text.empty()) segments_.push_back({std::move(text), false, std::nullopt});
}

void PromptWriter::image(const ImageReference& image) {
  segments_.push_back({fmt::format("{}image {}x{}{}{}{}", xtml::kMediaBegin, image.image.width, image.image.height,
                                   xtml::kMediaContent, xtml::kMediaPad, xtml::kMediaEnd),
                       true, image});
}

void PromptWriter::system_message(std::string_view type, std::string body) {
  open("message", {{"role", "system"}, {"type", type}});
  text(std::move(body));
  end_message();
}

void PromptWriter::control(std::string_view marker) {
  segments_.push_back({std::string(marker), true, std::nullopt});
}

}  // namespace perigee
