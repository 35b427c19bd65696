// GrowingBody: a Beast body type that collects into a std::string. Private to http/.
//
// Beast's own string_body reserves whatever Content-Length promises; this one grows with the bytes that really come, so
// that a promise alone costs no memory.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional/optional.hpp>
#include <cstdint>
#include <string>

namespace perigee {

struct GrowingBody {
  using value_type = std::string;

  class reader {  // NOLINT: the name that Beast looks for
   public:
    template <bool kIsRequest, class Fields>
    reader(boost::beast::http::header<kIsRequest, Fields>& /*header*/, value_type& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& /*length*/, boost::system::error_code& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      const size_t before = body_.size();
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers);
           ++it) {
        const boost::asio::const_buffer part = *it;
        body_.append(static_cast<const char*>(part.data()), part.size());
      }
      return body_.size() - before;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

}  // namespace perigee
