// perigee: one program, one sub-command per file of this folder. Start-up errors are caught here: one sentence, exit 1.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "apps/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Perigee serves the Kimi K3 family of language models.", "perigee");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("perigee ") + PERIGEE_VERSION);
  perigee::add_serve_command(app);
  perigee::add_run_command(app);
  perigee::add_inspect_command(app);
  perigee::add_doctor_command(app);
  perigee::add_synth_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "perigee: %s\n", error.what());
    return 1;
  }
  return 0;
}
