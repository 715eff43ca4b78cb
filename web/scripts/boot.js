// Counts the bytes of the start. PyScript's worker fetches Python without reporting progress; so the page
// requests the same files first, and the worker finds them in the browser's cache.

const OWN = ["pyodide.asm.wasm", "pyodide.asm.mjs", "python_stdlib.zip"];

const files = async () => {
  const config = new URL(document.querySelector("script[config]").getAttribute("config"), document.baseURI);
  const { interpreter, packages, files: archives } = await (await fetch(config)).json();
  const folder = new URL(".", new URL(interpreter, config));
  const lock = await (await fetch(new URL("pyodide-lock.json", folder))).json();
  const wheels = packages.map((name) => lock.packages[name].file_name);
  return [
    ...[...OWN, ...wheels].map((name) => new URL(name, folder)),
    ...Object.keys(archives).map((name) => new URL(name, config)),
  ];
};

// Resolves once all files are there; `tell(done, total)` gets bytes. Failures are ignored: PyScript requests
// the files again, and reports errors.
export const countBytes = async (tell) => {
  let [done, total, open] = [0, 0, 0];
  const count = async (name) => {
    open++;
    const answer = await fetch(name);
    total += Number(answer.headers.get("Content-Length") ?? 0);
    open--;
    for (const reader = answer.body.getReader(); ;) {
      const step = await reader.read();
      if (step.done) return;
      done += step.value.byteLength;
      if (!open) tell(done, Math.max(total, done)); // the total is known once all have answered
    }
  };
  await Promise.allSettled((await files()).map(count));
};
