// Runs a program for WebAssembly, with WASI if it asks for that: node ci/on/wasm.mjs FILE [ARGUMENT…].
import { readFile } from "node:fs/promises";
import process from "node:process";

process.removeAllListeners("warning"); // node calls its WASI an experiment.
const [file, ...args] = process.argv.slice(2);
const module = await WebAssembly.compile(await readFile(file));
if (WebAssembly.Module.imports(module).length === 0) {
    const instance = await WebAssembly.instantiate(module, {});
    // A panic is a trap, which node throws.
    process.exit(instance.exports.main(0, 0));
}
const { WASI } = await import("node:wasi");
const wasi = new WASI({ version: "preview1", args: [file, ...args], env: {}, returnOnExit: true });
process.exit(wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject())));
