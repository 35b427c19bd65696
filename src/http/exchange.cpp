// Producers append bytes under the lock; the io thread swaps the buffer out, so tokens that arrive while a write runs
// leave together in the next one. Callbacks run and die outside the lock: they may hold handles that come back here.
#include "http/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "http/sse.h"

namespace perigee {
namespace {

/// Header lines that only the server may write.
bool is_reserved(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kReserved = {"Content-Length", "Connection", "Transfer-Encoding",
                                                                "Date", "Content-Type"};
  return std::any_of(kReserved.begin(), kReserved.end(),
                     [name](std::string_view reserved) { return equals_ignoring_case(name, reserved); });
}

/// Appends one header line. Control characters become spaces: a value may stem from a request, and a line break in it
/// would let that request write headers of its own.
void append_line(std::string& out, std::string_view name, std::string_view value) {
  const auto safe = [&out](std::string_view text) {
    for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  };
  safe(name);
  out += ": ";
  safe(value);
  out += "\r\n";
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 40> text{};
  // The C locale is in force unless someone calls setlocale, which Perigee never does.
  const size_t size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

class ExchangeStream final : public EventStream {
 public:
  explicit ExchangeStream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ExchangeStream(const ExchangeStream&) = delete;
  ExchangeStream& operator=(const ExchangeStream&) = delete;
  ~ExchangeStream() override { exchange_->cut(); }

  bool send(std::string_view data) override { return send_named({}, data); }
  bool send_named(std::string_view event, std::string_view data) override {
    PERIGEE_CHECK(event.find_first_of("\r\n") == std::string_view::npos, "an event name holds a line break");
    std::string text;
    append_sse_event(text, event, data);
    return exchange_->push(text);
  }
  bool comment(std::string_view text) override {
    std::string line;
    append_sse_comment(line, text);
    return exchange_->push(line);
  }
  void close() override { exchange_->close(); }
  size_t queued_bytes() const override { return exchange_->queued_bytes(); }
  bool is_open() const override { return exchange_->is_open(); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

class ExchangeReply final : public Reply {
 public:
  explicit ExchangeReply(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ExchangeReply(const ExchangeReply&) = delete;
  ExchangeReply& operator=(const ExchangeReply&) = delete;
  ~ExchangeReply() override { exchange_->abandon_reply(); }

  void send(HttpResponse response) override {
    PERIGEE_CHECK(exchange_->send(std::move(response)), "a request was answered twice");
  }
  std::shared_ptr<EventStream> start_stream(int status, Headers headers) override {
    PERIGEE_CHECK(exchange_->start_stream(status, std::move(headers)), "a request was answered twice");
    return std::make_shared<ExchangeStream>(exchange_);
  }
  void on_disconnect(std::function<void(Disconnect)> callback) override {
    exchange_->on_disconnect(std::move(callback));
  }

 private:
  std::shared_ptr<Exchange> exchange_;
};

void run_callback(const std::function<void(Disconnect)>& callback, Disconnect reason) {
  if (!callback) return;
  try {
    callback(reason);
  } catch (const std::exception& fault) {
    log_error("a disconnect callback threw: {}", fault.what());
  }
}

}  // namespace

std::string_view disconnect_name(Disconnect reason) {
  switch (reason) {
    case Disconnect::client_closed:
      return "client_closed";
    case Disconnect::slow_client:
      return "slow_client";
    case Disconnect::server_stopped:
      return "server_stopped";
  }
  return "unknown";
}

std::shared_ptr<Reply> make_reply(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<ExchangeReply>(std::move(exchange));
}

Exchange::Exchange(std::shared_ptr<ServerState> state, Form form, OutputListener* listener)
    : state_(std::move(state)), form_(form), listener_(listener) {}

void Exchange::append_head(int status, const Headers& headers, std::string_view content_type, const size_t* length) {
  status_ = status;
  const bool until_close = !length && !form_.chunked;
  keep_alive_ = form_.keep_alive && !until_close && !state_->draining;
  fmt::format_to(std::back_inserter(pending_), "HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  append_line(pending_, "Date", http_date());
  if (!content_type.empty()) append_line(pending_, "Content-Type", content_type);
  if (length) append_line(pending_, "Content-Length", fmt::to_string(*length));
  if (!length && form_.chunked && status != 204 && status != 304) {
    append_line(pending_, "Transfer-Encoding", "chunked");
  }
  // HTTP/1.0 closes unless told otherwise, HTTP/1.1 the reverse; saying it always serves both.
  append_line(pending_, "Connection", keep_alive_ ? "keep-alive" : "close");
  const std::string& origin = state_->options.cors_origin;
  if (!origin.empty()) append_line(pending_, "Access-Control-Allow-Origin", origin);
  for (const auto& [name, value] : headers) {
    if (!is_reserved(name)) append_line(pending_, name, value);
  }
  pending_ += "\r\n";
}

void Exchange::append_chunk(std::string_view bytes) {
  if (form_.chunked) fmt::format_to(std::back_inserter(pending_), "{:x}\r\n", bytes.size());
  pending_ += bytes;
  if (form_.chunked) pending_ += "\r\n";
}

void Exchange::notify() {
  if (notified_ || !listener_) return;
  // Stays set until take(): while a write runs, more output needs no more wake-ups.
  notified_ = true;
  listener_->output_ready();
}

bool Exchange::waits_for_producer() const {
  return stage_ == Stage::unanswered || stage_ == Stage::streaming;
}

bool Exchange::send(HttpResponse response) {
  std::function<void(Disconnect)> released;
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::lost && status_ == 0) {
    status_ = response.status;
    detached_unfinished_ = false;
    return true;
  }
  if (stage_ != Stage::unanswered) return false;
  released = std::move(callback_);
  callback_ = nullptr;
  const bool bodiless = response.status == 204 || response.status == 304;
  const size_t length = response.body.size();
  append_head(response.status, response.headers, bodiless ? "" : response.content_type, bodiless ? nullptr : &length);
  if (!form_.head_only && !bodiless) pending_ += response.body;
  stage_ = Stage::complete;
  notify();
  return true;
}

bool Exchange::start_stream(int status, Headers headers) {
  std::function<void(Disconnect)> released;
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::lost && status_ == 0) {
    status_ = status;
    return true;
  }
  if (stage_ != Stage::unanswered) return false;
  headers.emplace_back("Cache-Control", "no-cache");
  // nginx would otherwise collect the events before passing them on.
  headers.emplace_back("X-Accel-Buffering", "no");
  append_head(status, headers, "text/event-stream; charset=utf-8", nullptr);
  stage_ = Stage::streaming;
  if (form_.head_only) {
    stage_ = Stage::complete;
    released = std::move(callback_);
    callback_ = nullptr;
  }
  notify();
  return true;
}

bool Exchange::push(std::string_view event_text) {
  const std::lock_guard lock(mutex_);
  if (stage_ != Stage::streaming) return false;
  if (pending_.size() + in_flight_ + event_text.size() > state_->options.limits.stream_queue_bytes) {
    stage_ = Stage::overflowed;
    reason_ = Disconnect::slow_client;
    pending_.clear();
    notified_ = false;
    notify();
    return false;
  }
  append_chunk(event_text);
  notify();
  return true;
}

void Exchange::close() {
  std::function<void(Disconnect)> released;
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::streaming) {
    if (form_.chunked) pending_ += "0\r\n\r\n";
    stage_ = Stage::complete;
    notify();
  }
  // Also after a loss: the producer has finished, so nobody is left to be told.
  detached_unfinished_ = false;
  if (stage_ != Stage::overflowed) released = std::exchange(callback_, nullptr);
}

void Exchange::cut() {
  std::function<void(Disconnect)> released;
  const std::lock_guard lock(mutex_);
  if (stage_ != Stage::streaming) return;
  stage_ = Stage::cut;
  released = std::exchange(callback_, nullptr);
  notify();
}

void Exchange::abandon_reply() {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::unanswered) return;
  }
  log_error("a handler dropped its reply without an answer");
  send(state_->router.error(500, "The server failed to answer this request."));
}

void Exchange::fail() {
  if (!send(state_->router.error(500, "The server failed while handling this request."))) cut();
}

void Exchange::on_disconnect(std::function<void(Disconnect)> callback) {
  Disconnect reason{};
  {
    const std::lock_guard lock(mutex_);
    if (waits_for_producer() || stage_ == Stage::overflowed) {
      std::swap(callback, callback_);
      return;
    }
    if (!detached_unfinished_) return;
    detached_unfinished_ = false;
    reason = reason_;
  }
  run_callback(callback, reason);
}

size_t Exchange::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return pending_.size() + in_flight_;
}

bool Exchange::is_open() const {
  const std::lock_guard lock(mutex_);
  return stage_ == Stage::streaming;
}

Exchange::Next Exchange::take(std::string& out) {
  const std::lock_guard lock(mutex_);
  notified_ = false;
  if (stage_ == Stage::overflowed) return Next::drop;
  out.swap(pending_);
  in_flight_ += out.size();
  if (stage_ == Stage::complete) return Next::finish;
  return stage_ == Stage::cut ? Next::drop : Next::wait;
}

void Exchange::wrote(size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_ -= std::min(bytes, in_flight_);
}

bool Exchange::overflowed() const {
  const std::lock_guard lock(mutex_);
  return stage_ == Stage::overflowed;
}

Disconnect Exchange::drop_reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

bool Exchange::keep_alive() const {
  const std::lock_guard lock(mutex_);
  return keep_alive_;
}

int Exchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Exchange::disconnect(Disconnect reason) {
  std::function<void(Disconnect)> callback;
  std::string unsent;
  {
    const std::lock_guard lock(mutex_);
    const bool unfinished = waits_for_producer() || stage_ == Stage::overflowed;
    listener_ = nullptr;
    reason_ = reason;
    stage_ = Stage::lost;
    unsent.swap(pending_);
    in_flight_ = 0;
    callback = std::exchange(callback_, nullptr);
    if (!unfinished) return;
    detached_unfinished_ = !callback;
  }
  run_callback(callback, reason);
}

void Exchange::end() {
  std::function<void(Disconnect)> released;
  const std::lock_guard lock(mutex_);
  listener_ = nullptr;
  released = std::exchange(callback_, nullptr);
}

}  // namespace perigee
