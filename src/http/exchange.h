// Exchange: the thread-safe middle between the producer of one answer (any thread, through Reply and EventStream) and
// its Connection (one io thread). Private to http/. It turns answers into bytes and keeps them until the io thread
// takes them; the Connection and the producer's handles share it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/reply.h"
#include "http/server_state.h"

namespace perigee {

/// Told that an Exchange has new output. Called from any thread with the Exchange's lock held: must only post.
class OutputListener {
 public:
  virtual void output_ready() = 0;

 protected:
  ~OutputListener() = default;
};

class Exchange {
 public:
  struct Form {
    bool chunked = true;     ///< HTTP/1.1: streams are chunked; else they end with the connection
    bool head_only = false;  ///< HEAD: no body
    bool keep_alive = true;  ///< what the request asked for
  };
  /// `listener` is used until end() or disconnect().
  Exchange(std::shared_ptr<ServerState> state, Form form, OutputListener* listener);

  // For the producer, any thread.
  bool send(HttpResponse response);                ///< false when already answered
  bool start_stream(int status, Headers headers);  ///< false when already answered
  bool push(std::string_view event_text);          ///< see EventStream::send
  void close();
  void abandon_reply();  ///< the last Reply is gone: 500 if unanswered
  void fail();           ///< the handler threw: 500, or a cut stream
  void cut();            ///< breaks a stream that was not closed
  void on_disconnect(std::function<void(Disconnect)> callback);
  size_t queued_bytes() const;
  bool is_open() const;

  // For the Connection, its io thread only.
  enum class Next {
    wait,    ///< nothing more for now
    finish,  ///< the answer is complete with the bytes taken
    drop,    ///< close the connection after the bytes taken; see drop_reason()
  };
  Next take(std::string& out);  ///< moves the queued bytes to `out` (empty before)
  void wrote(size_t bytes);
  bool overflowed() const;  ///< to be asked while a write is in progress: the client is to be dropped now
  Disconnect drop_reason() const;
  bool keep_alive() const;  ///< valid once the head was made
  int status() const;
  /// The client is lost: no more output, and the callback runs if the producer had not finished.
  void disconnect(Disconnect reason);
  /// All bytes are written: releases the callback.
  void end();

 private:
  enum class Stage { unanswered, streaming, complete, overflowed, cut, lost };
  void append_head(int status, const Headers& headers, std::string_view content_type, const size_t* length);
  void append_chunk(std::string_view bytes);
  void notify();
  bool waits_for_producer() const;

  const std::shared_ptr<ServerState> state_;
  const Form form_;
  mutable std::mutex mutex_;
  OutputListener* listener_;
  Stage stage_ = Stage::unanswered;
  bool notified_ = false;
  bool keep_alive_ = false;
  bool detached_unfinished_ = false;  ///< lost before the producer had finished: a late callback still runs
  Disconnect reason_ = Disconnect::client_closed;
  int status_ = 0;
  size_t in_flight_ = 0;
  std::string pending_;
  std::function<void(Disconnect)> callback_;
};

/// The handle a handler gets.
std::shared_ptr<Reply> make_reply(std::shared_ptr<Exchange> exchange);

}  // namespace perigee
