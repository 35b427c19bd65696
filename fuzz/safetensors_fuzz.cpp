// Any bytes as a safetensors header: an error or a header whose tensors all lie inside the file.

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kFileSize = 4096;
  const auto header = perigee::parse_safetensors_header({reinterpret_cast<const char*>(data), size}, 64, kFileSize);
  if (!header) return 0;
  for (const auto& [name, tensor] : *header) {
    PERIGEE_CHECK(tensor.offset >= 64 && tensor.bytes >= 0 && tensor.offset + tensor.bytes <= kFileSize, "tensor {}",
                  name);
  }
  return 0;
}
