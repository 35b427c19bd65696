// The sub-commands of `perigee`. Each function registers one with its options; the callback runs inside CLI11's parse
// and throws std::runtime_error with a full sentence when it fails (main prints it and exits with 1).
#pragma once

namespace CLI {
class App;
}

namespace perigee {

void add_serve_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_synth_command(CLI::App& app);

}  // namespace perigee
