// resolve_model_path: a folder, or a hub id that lies in the local Hugging Face cache. Nothing is ever downloaded.
#pragma once

#include <string>

#include "base/result.h"

namespace perigee {

/// An existing folder is returned as it is. Otherwise "org/name" or "org/name@revision" is looked up in HF_HUB_CACHE,
/// else HF_HOME/hub, else ~/.cache/huggingface/hub: models--org--name/refs/<revision, default main> names the snapshot;
/// without that file the only snapshot is taken. The error says where it looked.
Result<std::string> resolve_model_path(const std::string& path_or_id);

}  // namespace perigee
