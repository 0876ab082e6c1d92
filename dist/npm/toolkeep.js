#!/usr/bin/env node
// Starts the program of the package for this platform, with the same arguments, streams and signals.
"use strict";

const { spawn } = require("node:child_process");

const name = `@toolkeep/${process.platform}-${process.arch}`;

function programPath() {
  if (process.env.TOOLKEEP_BINARY) return process.env.TOOLKEEP_BINARY;
  try {
    return require.resolve(`${name}/bin/toolkeep`);
  } catch {
    const known = Object.keys(require("../package.json").optionalDependencies);
    if (known.includes(name)) {
      fail(
        `the package ${name} is not installed`,
        "install again without --omit=optional; on Linux the package needs glibc",
      );
    }
    fail(
      `there is no program for ${process.platform} on ${process.arch}`,
      `packages exist for ${known.map((it) => it.replace("@toolkeep/", "")).join(", ")}; ` +
        "set TOOLKEEP_BINARY to a program that you built",
    );
  }
}

function fail(problem, help) {
  process.stderr.write(`error: ${problem}\n  help: ${help}\n`);
  process.exit(1);
}

const child = spawn(programPath(), process.argv.slice(2), { stdio: "inherit" });

child.on("error", (error) => fail(`cannot start the program: ${error.message}`, "install again"));

// A terminal sends SIGINT to the program too; Node must only outlive it. Others send to Node alone.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}

child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends as the program did, so that a shell or supervisor sees the same.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
