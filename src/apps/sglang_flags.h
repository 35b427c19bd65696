// What `serve` says to flags it does not have: SGLang's own that do not apply yet, and misspelt ones.
#pragma once

namespace CLI {
class App;
}

namespace perigee {

/// Throws std::runtime_error for the first argument `command` did not understand: "not supported yet" for a flag of
/// SGLang, else with the nearest flag there is.
void refuse_unknown_flags(const CLI::App& command);

}  // namespace perigee
